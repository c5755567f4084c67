set -u
umask 022
home={= home | sh =}
package={= package | sh =}
doctor=$home/bin/doctor
install() {
  if command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=600 update -q &&
      apt-get -o DPkg::Lock::Timeout=600 install -yq python3-venv || return
    python=python3
  elif command -v dnf >/dev/null; then
    dnf install -yq python3.12 || return
    python=python3.12
  else
    echo "gpu-host-doctor: neither apt-get nor dnf is here" >&2
    return 1
  fi
  "$python" -m venv "$home" && "$home/bin/pip" install -q "$package"
}
if ! [ -x "$doctor" ]; then
  install || exit
fi
code=0
"$doctor" --fix --format json -o "$home/provision.json"{% for word in want %} --want {= word | sh =}{% endfor %}{% for word in allow %} --allow {= word | sh =}{% endfor %} || code=$?
case $code in
  0)
    echo "gpu-host-doctor: this host is ready"
    ;;
  5)
    run=$("$home/bin/python" -I -c '
import json, sys
said = json.load(open(sys.argv[1]))
print(said["run"] if any(item.get("rebooting") for item in said["stopped"]) else "")
' "$home/provision.json")
    if [ -n "$run" ]; then
      echo "gpu-host-doctor: run $run goes on after the reboot"
      echo "$run" >"$home/goes-on"
      exit 0
    fi
    echo "gpu-host-doctor: stopped at a consent; $home/provision.json says at which" >&2
    ;;
  *)
    echo "gpu-host-doctor: exit code $code; $home/provision.json says why" >&2
    ;;
esac
exit "$code"
