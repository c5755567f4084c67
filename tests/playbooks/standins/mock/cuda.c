/* libcuda of a stand-in: cuInit succeeds only with nodes, module and library in step, as the real one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#ifndef VERSION
#define VERSION "0"
#endif
#ifndef CUDA
#define CUDA 13000
#endif

static int there(const char *path) { struct stat s; return stat(path, &s) == 0; }
static int device(const char *path) { struct stat s; return stat(path, &s) == 0 && S_ISCHR(s.st_mode); }

static int boards(void)
{
	FILE *f = fopen("/etc/standin/gpus", "r");
	int n = 0, c;
	if (!f)
		return 0;
	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static int named(const char *word)
{
	FILE *f = fopen("/etc/standin/gpus", "r");
	char line[512];
	int found = 0;
	while (f && !found && fgets(line, sizeof line, f))
		found = strstr(line, word) != NULL;
	if (f)
		fclose(f);
	return found;
}

int cuInit(unsigned flags)
{
	char line[512] = "";
	FILE *f;
	Dl_info self;
	(void)flags;
	if (dladdr((void *)cuInit, &self) && strstr(self.dli_fname, "/stubs/"))
		return 34;
	if (there("/dev/dxg"))
		return 0;
	f = fopen("/proc/driver/nvidia/version", "r");
	if (!f)
		return 100;
	if (!fgets(line, sizeof line, f))
		line[0] = 0;
	fclose(f);
	if (!strstr(line, "  " VERSION "  "))
		return named("GeForce") ? 804 : 803; /* forward compatibility is for data center boards */
	if (!device("/dev/nvidiactl") || !device("/dev/nvidia0"))
		return 100;
	if (!device("/dev/nvidia-uvm"))
		return 999;
	if (there("/etc/standin/switches") && !there("/run/standin/fabric"))
		return 802;
	return 0;
}
int cuDriverGetVersion(int *out) { *out = CUDA; return 0; }
int cuDeviceGetCount(int *out) { *out = boards(); return 0; }
