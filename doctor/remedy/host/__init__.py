"""What has to be done on the host itself with root's rights. Standard library only: it runs under /usr/bin/python3 (3.9)."""
