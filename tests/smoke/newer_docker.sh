#!/bin/sh
# Unpack the Docker of a newer Debian into a folder and install nothing: newer_docker.sh FOLDER. CDI came with Docker 25.
# runc stays the system's: the newer one needs a newer C library.
set -eu
folder=$1
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$folder/debs" "$folder/root"
chmod 755 "$folder" "$folder/debs"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main" >"$folder/sources.list"
apart="-o Dir::Etc::SourceList=$folder/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$folder/lists -o Dir::Cache=$folder/cache -o APT::Sandbox::User=root"
apt-get $apart -qq update
cd "$folder/debs"
apt-get $apart -qq download docker.io containerd
for file in *.deb; do dpkg -x "$file" "$folder/root"; done
rm -rf "$folder/lists" "$folder/cache" "$folder/debs"
"$folder/root/usr/sbin/dockerd" --version
