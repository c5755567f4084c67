"""What a stub package is, for dpkg and for rpm alike."""

from dataclasses import dataclass, field


@dataclass
class Stub:
    """One package of one repository. `files`: path -> (bytes, mode); `links`: path -> target."""

    name: str
    version: str
    repo: str
    release: str = "1"
    epoch: str = ""
    arch: str = "amd64"
    depends: list = field(default_factory=list)
    provides: list = field(default_factory=list)
    conflicts: list = field(default_factory=list)
    recommends: list = field(default_factory=list)
    files: dict = field(default_factory=dict)
    links: dict = field(default_factory=dict)
    config: list = field(default_factory=list)
    after: str = ""
    before_remove: str = ""
    after_remove: str = ""
    say: str = "stand-in"
