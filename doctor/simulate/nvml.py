"""What NVML says on a simulated host."""

from __future__ import annotations

from doctor.facts.versions import CudaVersion
from doctor.simulate.boards import answers, link_states
from doctor.simulate.host import Board, Host
from doctor.simulate.writer import RecordingWriter

MIG_MOST = 7


def write(host: Host, out: RecordingWriter) -> None:
    """Exactly what the nvml probe reads."""
    out.nvml["init"] = host.init
    if host.init != "ok":
        return
    driver = host.driver.library or ""
    cuda = CudaVersion.parse(host.driver_cuda) if host.driver_cuda else None
    out.nvml_call("nvmlSystemGetDriverVersion", value=driver)
    if cuda:
        out.nvml_call("nvmlSystemGetNVMLVersion", value=f"{cuda.major}.{driver}")
        number = int(cuda.major) * 1000 + int(cuda.minor) * 10
        out.nvml_call("nvmlSystemGetCudaDriverVersion_v2", value=number)
    boards = [board for board in host.boards if _listed(host, board)]
    out.nvml_call("nvmlDeviceGetCount", value=len(boards))
    for index, board in enumerate(boards):
        if not board.part.on_bus:
            out.nvml["devices"][str(index)] = f"unopened-{index}"
            out.nvml_call("nvmlDeviceGetHandleByIndex", index, error="NVML_ERROR_GPU_IS_LOST")
            continue
        out.nvml["devices"][str(index)] = board.uuid
        _device(host, board, index, out)


def _listed(host: Host, board: Board) -> bool:
    """A board that fell off the bus under the driver stays in NVML's list until the driver is loaded anew."""
    fell = any(str(event).startswith("79") for event in host.d.xid)
    return board.initialised and (board.part.on_bus or fell)


def _device(host: Host, board: Board, index: int, out: RecordingWriter) -> None:
    out.nvml_call("nvmlDeviceGetHandleByIndex", index, value=True)
    out.nvml_call("nvmlDeviceGetUUID", index, value=board.uuid)
    for function, value in answers(host, board).items():
        if isinstance(value, tuple):
            out.nvml_call(function, index, error=value[1])
        else:
            out.nvml_call(function, index, value=value)
    for counter in (0, 1):
        if board.ecc_supported and board.part.ecc is not False:
            count = board.part.ecc_uncorrected
            out.nvml_call("nvmlDeviceGetTotalEccErrors", index, 1, counter, value=count)
        else:
            missing = "NVML_ERROR_NOT_SUPPORTED"
            out.nvml_call("nvmlDeviceGetTotalEccErrors", index, 1, counter, error=missing)
    states = link_states(board)
    for number, state in enumerate(states):
        out.nvml_call("nvmlDeviceGetNvLinkState", index, number, value=state)
    end = "NVML_ERROR_INVALID_ARGUMENT" if states else "NVML_ERROR_NOT_SUPPORTED"
    out.nvml_call("nvmlDeviceGetNvLinkState", index, len(states), error=end)
    if board.mig_supported and board.part.mig != "off":
        _instances(board, index, out)


def _instances(board: Board, index: int, out: RecordingWriter) -> None:
    made = int(board.part.mig) if board.part.mig.isdigit() else 0
    out.nvml_call("nvmlDeviceGetMaxMigDeviceCount", index, value=MIG_MOST)
    for number in range(MIG_MOST):
        function = "nvmlDeviceGetMigDeviceHandleByIndex"
        if number < made:
            out.nvml_call(function, index, number, value=True)
        else:
            out.nvml_call(function, index, number, error="NVML_ERROR_NOT_FOUND")
