"""Acts on the host: runs roles, keeps what they change, and takes it back."""
