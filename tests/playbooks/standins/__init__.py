"""Containers that stand in for hosts: systemd as process 1, sshd, real apt or dnf against local stub repositories.

What is real: the package managers, systemd, sshd, Docker, every file. What is laid out by the tests: the kernel side
(/sys/module, /sys/bus/pci, /proc/driver, the release), NVIDIA's packages and what their libraries answer.
"""
