"""Many hosts: collect what their probes saw, judge it here, keep it, compare it. No daemon, no agent, no open port."""
