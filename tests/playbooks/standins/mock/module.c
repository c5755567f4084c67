/* A module file that modinfo can read and no kernel would load. The vermagic is cut to the kernel it is "built" for. */
#define INFO(name, text) static const char info_##name[] __attribute__((section(".modinfo"), used, aligned(1))) = #name "=" text
INFO(version, VERSION);
INFO(license, LICENSE);
INFO(description, "stand-in");
INFO(vermagic, "@KERNEL@                                                                        ");
INFO(name, "nvidia");
