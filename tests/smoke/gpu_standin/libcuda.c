/* A libcuda for tests: GPUs in host memory, one kernel that it knows, faults by CUDA_STANDIN.
 * CUDA_STANDIN="gpus=2 init=0 p2p=1 free=268435456 fault=1:copy ledger=/path"; faults: context memory copy kernel
 * ptx hang crash peer peerhang. At exit the ledger gets what was not given back. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS 16
static int current = -1, retained[GPUS], access_on[GPUS][GPUS];
static long allocations, modules, streams;
static const char FACTOR_NOTE[] = "0x9E3779B1";

static long setting(const char *key, long otherwise) {
  const char *text = getenv("CUDA_STANDIN"), *at = text ? strstr(text, key) : NULL;
  return at ? strtol(at + strlen(key), NULL, 10) : otherwise;
}

static int fault(int device, const char *name) {
  const char *text = getenv("CUDA_STANDIN"), *at = text ? strstr(text, "fault=") : NULL;
  char wanted[64];
  if (!at) return 0;
  snprintf(wanted, sizeof wanted, "%d:%s", device, name);
  return strncmp(at + 6, wanted, strlen(wanted)) == 0 &&
         (at[6 + strlen(wanted)] == 0 || at[6 + strlen(wanted)] == ' ');
}

__attribute__((destructor)) static void ledger(void) {
  const char *text = getenv("CUDA_STANDIN"), *at = text ? strstr(text, "ledger=") : NULL;
  int contexts = 0;
  if (!at) return;
  for (int i = 0; i < GPUS; i++) contexts += retained[i];
  FILE *out = fopen(at + 7, "a");
  if (!out) return;
  fprintf(out, "%ld %ld %ld %d\n", allocations, modules, streams, contexts);
  fclose(out);
}

int cuInit(unsigned flags) { return (int)setting("init=", 0); }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = (int)setting("gpus=", 2); return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "NVIDIA H200"); return 0; }
int cuDeviceGetPCIBusId(char *name, int size, int device) { snprintf(name, size, "0000:00:%02X.0", device + 6); return 0; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
  memset(uuid, 0, 16); uuid[3] = device + 2; uuid[6] = 0x40; uuid[8] = 0x80; return 0;
}
int cuDeviceGetAttribute(int *value, int which, int device) { *value = which == 75 ? 9 : 0; return 0; }
int cuGetErrorName(int code, const char **name) {
  switch (code) {
    case 2: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
    case 34: *name = "CUDA_ERROR_STUB_LIBRARY"; return 0;
    case 46: *name = "CUDA_ERROR_DEVICE_UNAVAILABLE"; return 0;
    case 100: *name = "CUDA_ERROR_NO_DEVICE"; return 0;
    case 218: *name = "CUDA_ERROR_INVALID_PTX"; return 0;
    case 803: *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; return 0;
    case 999: *name = "CUDA_ERROR_UNKNOWN"; return 0;
  }
  return 1;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  if (fault(device, "context")) return 46;
  if (fault(device, "hang")) sleep(600);
  if (fault(device, "crash")) abort();
  retained[device]++; *context = (void *)(uintptr_t)(device + 1); return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) { retained[device]--; return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *active = retained[device] > 0; return 0; }
int cuCtxSetCurrent(void *context) { current = (int)(uintptr_t)context - 1; return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = setting("free=", 268435456); *total = 2 * *free; return 0;
}
int cuMemAlloc_v2(uint64_t *address, size_t size) {
  if (fault(current, "memory")) return 2;
  *address = (uint64_t)(uintptr_t)malloc(size); allocations++; return *address ? 0 : 2;
}
int cuMemFree_v2(uint64_t address) { free((void *)(uintptr_t)address); allocations--; return 0; }
int cuMemsetD8_v2(uint64_t address, unsigned char byte, size_t size) { memset((void *)(uintptr_t)address, byte, size); return 0; }
int cuMemsetD32_v2(uint64_t address, unsigned value, size_t count) {
  for (size_t i = 0; i < count; i++) ((unsigned *)(uintptr_t)address)[i] = value;
  return 0;
}
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { memcpy((void *)(uintptr_t)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) {
  memcpy(to, (void *)(uintptr_t)from, size);
  if (fault(current, "copy")) ((unsigned char *)to)[12345] ^= 4;
  return 0;
}
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size) { memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size); return 0; }
int cuDeviceCanAccessPeer(int *can, int device, int peer) { *can = (int)setting("p2p=", 1); return 0; }
int cuCtxEnablePeerAccess(void *peer, unsigned flags) { access_on[current][(uintptr_t)peer - 1] = 1; return 0; }
int cuCtxDisablePeerAccess(void *peer) {
  if (!access_on[current][(uintptr_t)peer - 1]) return 705;
  access_on[current][(uintptr_t)peer - 1] = 0; return 0;
}
int cuMemcpyPeer(uint64_t to, void *there, uint64_t from, void *here, size_t size) {
  int device = (int)(uintptr_t)there - 1;
  if (fault(device, "peerhang")) sleep(600);
  memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
  if (fault(device, "peer")) ((unsigned char *)(uintptr_t)to)[4096] ^= 1;
  return 0;
}
int cuStreamCreate(void **stream, unsigned flags) { *stream = malloc(1); streams++; return 0; }
int cuStreamDestroy_v2(void *stream) { free(stream); streams--; return 0; }
int cuStreamSynchronize(void *stream) { return 0; }
int cuModuleLoadDataEx(void **module, const char *ptx, unsigned count, int *options, void **values) {
  if (fault(current, "ptx") || !strstr(ptx, ".target sm_50") || !strstr(ptx, FACTOR_NOTE)) {
    for (unsigned i = 0; i < count; i++)
      if (options[i] == 5) strcpy(values[i], "ptxas application ptx input, line 3; fatal   : Unsupported .target");
    return 218;
  }
  *module = malloc(1); modules++; return 0;
}
int cuModuleUnload(void *module) { free(module); modules--; return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = module; return strcmp(name, "doctor_sum") ? 500 : 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
  const uint32_t *in = *(const uint32_t **)arguments[0];
  uint32_t *out = *(uint32_t **)arguments[1], count = *(uint32_t *)arguments[3];
  uint64_t *total = *(uint64_t **)arguments[2];
  for (uint32_t i = 0; i < count && i < gx * bx; i++) {
    out[i] = in[i] * 0x9E3779B1u + i;
    *total += out[i];
  }
  if (fault(current, "kernel")) *total += 1;
  return 0;
}
