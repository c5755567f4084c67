#!/bin/bash
# Turns the shared root file system into one distribution. Runs once, while the image is built.
set -euo pipefail
flavor=$1
here=/usr/lib/standin
export DEBIAN_FRONTEND=noninteractive

# The real engine moves aside; the stub packages of Docker link to it.
mkdir -p $here/docker
for name in dockerd docker docker-proxy docker-init containerd containerd-shim-runc-v2 ctr runc; do
  found=$(command -v $name || true)
  [ -z "$found" ] || cp "$(readlink -f "$found")" $here/docker/$name
done
apt-get purge -y -qq docker.io containerd runc tini >/dev/null 2>&1
rm -rf /etc/docker /etc/containerd /etc/default/docker /etc/apparmor.d /var/lib/docker /var/lib/containerd

plugins=/usr/lib/python3/dist-packages/dnf-plugins
mv $plugins/versionlock.py $here/versionlock.py
rm -rf $plugins/{local,leaves,show_leaves,post-transaction-actions,modulesync,generate_completion_cache}.py /etc/dnf/plugins/*
rm -rf /var/lib/dnf/plugins
for name in modprobe insmod rmmod lsmod update-initramfs dracut update-grub grub2-mkconfig grubby; do
  ln -sfn $here/tool.py /usr/sbin/$name
done
rm -f /usr/bin/lsmod /sbin/lsmod.usr
for name in lsinitramfs lsinitrd lsmod; do ln -sfn $here/tool.py /usr/bin/$name; done
printf '#!/bin/sh\nexec cat /run/standin/dmesg\n' >/usr/bin/dmesg
chmod 755 /usr/bin/dmesg
chmod 755 $here/tool.py
ln -sfn tool.py $here/nvidia-modprobe
printf '#!/bin/sh\nexec /usr/bin/python3 -I %s/lay_out.py\n' $here >$here/init
chmod 755 $here/init
cat >/etc/systemd/system/standin-unmark.service <<'U'
[Unit]
Description=Let the stand-in not look like a container
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
ExecStart=/bin/rm -f /run/systemd/container
RemainAfterExit=yes

[Install]
WantedBy=sysinit.target
U
systemctl enable -q standin-unmark.service
systemctl mask -q systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-modules-load.service \
  apt-daily.timer apt-daily-upgrade.timer dnf-makecache.timer man-db.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer 2>/dev/null || true

# sshd, users and the mirror's certificate authority.
ssh-keygen -A >/dev/null
mkdir -p /root/.ssh /run/sshd
chmod 700 /root/.ssh
cp $here/keys/ca.crt /usr/local/share/ca-certificates/standin.crt
update-ca-certificates >/dev/null 2>&1
useradd -m -s /bin/bash ops
useradd -m -s /bin/bash asked
useradd -m -s /bin/bash guest
echo 'asked:secret' | chpasswd
printf 'ops ALL=(ALL) NOPASSWD: ALL\nasked ALL=(ALL) ALL\n' >/etc/sudoers.d/standin
chmod 440 /etc/sudoers.d/standin
sed -i 's/^#\?PasswordAuthentication.*/PasswordAuthentication no/; s/^#\?UseDNS.*/UseDNS no/' /etc/ssh/sshd_config
printf '#\n' >/etc/default/grub
printf 'GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n' >/etc/default/grub
mkdir -p /boot /lib/modules /etc/modprobe.d /etc/standin /etc/security/limits.d
: >/etc/standin/gpus
echo off >/etc/standin/secure-boot

describe() {
  printf '{"family": "%s", "release": "%s", "compiler": "%s", "wsl": %s}\n' "$1" "$2" "$3" "$4" >/etc/standin/host.json
}

serve() {
  python3 -B /tmp/serve.py >/tmp/serve.log 2>&1 &
  echo $! >/tmp/serve.pid
  for host in $(ls /tmp/mirror); do echo "127.0.0.1 $host" >>/etc/hosts; done
  mkdir -p /srv/mirror && mount --bind /tmp/mirror /srv/mirror 2>/dev/null || { rmdir /srv/mirror; ln -s /tmp/mirror /srv/mirror; }
  sleep 1
}

ubuntu() {
  local version=$1 codename=$2 long=$3 release=$4 compiler=$5
  describe debian "$release" "$compiler" "$6"
  cat >/usr/lib/os-release <<U
PRETTY_NAME="Ubuntu $long LTS"
NAME="Ubuntu"
VERSION_ID="$version"
VERSION="$long LTS"
VERSION_CODENAME=$codename
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME=$codename
U
  ln -sfn ../usr/lib/os-release /etc/os-release
  printf 'DISTRIB_ID=Ubuntu\nDISTRIB_RELEASE=%s\nDISTRIB_CODENAME=%s\nDISTRIB_DESCRIPTION="Ubuntu %s LTS"\n' "$version" "$codename" "$long" >/etc/lsb-release
  [ "$codename" = jammy ] && echo bookworm/sid >/etc/debian_version || echo trixie/sid >/etc/debian_version
  cp $here/keys/os.gpg /usr/share/keyrings/ubuntu-archive-keyring.gpg
  rm -f /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/trusted.gpg.d/*
  cat >/etc/apt/sources.list.d/ubuntu.sources <<U
Types: deb
URIs: http://archive.ubuntu.com/ubuntu/
Suites: $codename $codename-updates
Components: main restricted universe multiverse
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg

Types: deb
URIs: http://security.ubuntu.com/ubuntu/
Suites: $codename-security
Components: main restricted universe multiverse
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg
U
  apt-get purge -y -qq --auto-remove dnf python3-dnf rpm dnf-plugins-core >/dev/null
  rm -rf /etc/dnf /etc/yum.repos.d /var/lib/dnf /var/lib/rpm /usr/lib/sysimage/rpm
  # Looking up SRV records waits for a name server that an offline stand-in does not have.
  echo 'Acquire::EnableSrvRecords "false";' >/etc/apt/apt.conf.d/99standin
  serve
  apt-get update -qq
  if [ "$6" = false ]; then
    mkdir -p /boot/grub && : >/boot/grub/grubenv
    apt-get install -y -qq "linux-image-$release" "linux-headers-$release" linux-modules-extra-"$release" gcc >/dev/null
    apt-get install -y -qq "linux-image-generic=$(echo "${release%-generic}" | tr - .)" >/dev/null
  fi
}

rocky() {
  local version=$1 major=$2 name=$3 release=$4 compiler=$5 database=$6
  describe rhel "$release" "$compiler" false
  cat >/usr/lib/os-release <<U
NAME="Rocky Linux"
VERSION="$version ($name)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="$version"
PLATFORM_ID="platform:el$major"
PRETTY_NAME="Rocky Linux $version ($name)"
ANSI_COLOR="0;32"
CPE_NAME="cpe:/o:rocky:rocky:$major::baseos"
U
  ln -sfn ../usr/lib/os-release /etc/os-release
  echo "Rocky Linux release $version ($name)" >/etc/rocky-release
  ln -sfn rocky-release /etc/redhat-release
  ln -sfn rocky-release /etc/system-release
  rm -f /etc/debian_version /etc/lsb-release
  mkdir -p $here/hidden
  mv /usr/bin/apt* /usr/bin/dpkg* $here/hidden/
  mv /var/lib/dpkg $here/hidden/var-lib-dpkg
  rm -rf /etc/apt /var/lib/apt /var/cache/apt /etc/dpkg
  rm -f /usr/sbin/update-initramfs /usr/sbin/update-grub /usr/bin/lsinitramfs
  rm -rf /var/lib/rpm /usr/lib/sysimage/rpm
  mkdir -p "$database" /etc/rpm /etc/pki/rpm-gpg /etc/yum.repos.d /etc/dnf/modules.d /etc/dnf/vars
  echo "%_dbpath $database" >/etc/rpm/macros.standin
  echo "%_dbpath $database" >/usr/lib/rpm/macros.d/macros.standin
  sed -i "s|^%_dbpath\s.*|%_dbpath $database|" /usr/lib/rpm/macros
  echo /usr/lib64 >/etc/ld.so.conf.d/00-lib64.conf
  cp $here/keys/os.asc "/etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-$major"
  printf '[main]\ngpgcheck=1\ninstallonly_limit=3\nclean_requirements_on_remove=True\nbest=True\nskip_if_unavailable=False\n' >/etc/dnf/dnf.conf
  for part in BaseOS AppStream extras; do
    cat >"/etc/yum.repos.d/rocky-${part,,}.repo" <<U
[${part,,}]
name=Rocky Linux \$releasever - $part
baseurl=https://dl.rockylinux.org/pub/rocky/\$releasever/$part/\$basearch/os/
gpgcheck=1
enabled=1
countme=1
gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-$major
U
  done
  : >/etc/selinux/config 2>/dev/null || { mkdir -p /etc/selinux; echo SELINUX=disabled >/etc/selinux/config; }
  echo SELINUX=disabled >/etc/selinux/config
  serve
  rpm --import "/etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-$major"
  mkdir -p /boot/grub2 /boot/loader/entries /usr/lib/firmware
  systemd-machine-id-setup >/dev/null 2>&1 || true
  dnf -q -y --releasever "$major" install rocky-release bash systemd dracut grubby dnf-plugins-core >/dev/null
  local rest=${release%.x86_64}
  dnf -q -y install "kernel-$rest" "kernel-modules-core-$rest" "kernel-devel-$rest" "kernel-headers-$rest" "kernel-devel-matched-$rest" gcc >/dev/null
  dnf -q makecache >/dev/null
}

case $flavor in
  ubuntu2204) ubuntu 22.04 jammy "22.04.5" 5.15.0-139-generic "gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0" false ;;
  ubuntu2404) ubuntu 24.04 noble "24.04.2" 6.8.0-60-generic "x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0" false ;;
  wsl2) ubuntu 24.04 noble "24.04.2" 6.6.87.2-microsoft-standard-WSL2 "gcc (GCC) 11.2.0" true ;;
  rocky9) rocky 9.6 9 "Blue Onyx" 5.14.0-570.12.1.el9_6.x86_64 "gcc (GCC) 11.5.0 20240719 (Red Hat 11.5.0-5)" /var/lib/rpm ;;
  rocky10) rocky 10.0 10 "Red Quartz" 6.12.0-55.9.1.el10_0.x86_64 "gcc (GCC) 14.2.1 20250110 (Red Hat 14.2.1-7)" /usr/lib/sysimage/rpm ;;
  *) exit 2 ;;
esac

kill "$(cat /tmp/serve.pid)"
if [ "$flavor" = wsl2 ]; then bash $here/wsl.sh; fi
ldconfig
echo $here/uname.so >/etc/ld.so.preload
umount /srv/mirror 2>/dev/null || true
rm -rf /srv/mirror /tmp/mirror /tmp/serve.* /srv/gnupg /var/log/*.log /var/log/dnf* /var/cache/dnf/*.log
truncate -s0 /etc/machine-id
