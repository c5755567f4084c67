set -u
home={= home | sh =}
if [ -s "$home/goes-on" ]; then
  read -r run <"$home/goes-on"
  code=0
  "$home/bin/doctor" runs show "$run" --wait {= wait | plain =} --format json -o "$home/provision.json" || code=$?
  # 5: it has not ended, or it waits for one more reboot. Ask again at the next boot.
  [ "$code" = 5 ] || rm -f "$home/goes-on"
  [ "$code" = 0 ] || exit "$code"
fi
