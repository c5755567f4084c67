"""Fixes many hosts: each as a single one is fixed, through Ansible, in waves that stop when too many fail."""
