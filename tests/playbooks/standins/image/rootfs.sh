#!/bin/bash
# The root file system that every stand-in shares: debootstrap, dnf and rpm beside apt, a real Docker engine.
set -euo pipefail
root=$1 mirror=$2
debootstrap --variant=minbase \
  --include=ca-certificates,python3,python3-apt,openssh-server,systemd,systemd-sysv,dbus,sudo,procps,iproute2,kmod,gpg \
  bookworm "$root" "$mirror" >/dev/null
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
export DEBIAN_FRONTEND=noninteractive
chroot "$root" apt-get install -y -qq --no-install-recommends \
  dnf python3-dnf rpm docker.io iptables udev apt-utils dnf-plugins-core python3-venv openssl gpg-agent curl >/dev/null
chroot "$root" apt-get clean
rm -f "$root/usr/sbin/policy-rc.d" "$root"/etc/ssh/ssh_host_* "$root"/etc/apt/apt.conf.d/*proxy*
rm -rf "$root"/var/cache/apt/*.bin "$root/usr/share/doc" "$root/usr/share/man" "$root/usr/share/locale"
