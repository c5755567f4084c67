/* libnvidia-ml of a stand-in: answers what /etc/standin/gpus says, as long as the laid-out kernel side fits VERSION. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifndef VERSION
#define VERSION "0"
#endif
#ifndef CUDA
#define CUDA 13000
#endif
#define MAX 16

typedef int ret;
enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, SMALL = 7, NOT_LOADED = 9, MISMATCH = 18 };

struct gpu { char address[32], device[8], subsystem[16], uuid[80], name[96]; unsigned long long memory; int index; };
static struct gpu gpus[MAX];
static int count, started;

static int wsl(void) { struct stat s; return stat("/dev/dxg", &s) == 0; }

static int load(void)
{
	FILE *f = fopen("/etc/standin/gpus", "r");
	char line[512];
	count = 0;
	if (!f)
		return 0;
	while (count < MAX && fgets(line, sizeof line, f)) {
		struct gpu *g = &gpus[count];
		char memory[32];
		if (sscanf(line, "%31[^\t]\t%7[^\t]\t%15[^\t]\t%79[^\t]\t%31[^\t]\t%95[^\n]", g->address, g->device, g->subsystem, g->uuid, memory, g->name) != 6)
			continue;
		g->memory = strtoull(memory, NULL, 10);
		g->index = count++;
	}
	fclose(f);
	return count;
}

static int module_version(char *out, size_t size)
{
	FILE *f = fopen("/proc/driver/nvidia/version", "r");
	char line[512], *at;
	if (!f)
		return 0;
	if (!fgets(line, sizeof line, f)) {
		fclose(f);
		return 0;
	}
	fclose(f);
	at = strstr(line, "  ");
	if (!at)
		return 0;
	while (*at == ' ')
		at++;
	snprintf(out, size, "%s", at);
	out[strcspn(out, " \n")] = 0;
	return 1;
}

ret nvmlInitWithFlags(unsigned flags)
{
	char loaded[64];
	struct stat s;
	(void)flags;
	if (!wsl()) {
		if (!module_version(loaded, sizeof loaded))
			return NOT_LOADED;
		if (strcmp(loaded, VERSION))
			return MISMATCH;
		if (stat("/dev/nvidiactl", &s))
			return NOT_LOADED;
	}
	load();
	started = 1;
	return OK;
}
ret nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
ret nvmlInit(void) { return nvmlInitWithFlags(0); }
ret nvmlShutdown(void) { started = 0; return OK; }

const char *nvmlErrorString(ret r)
{
	switch (r) {
	case OK: return "Success";
	case NOT_LOADED: return "Driver Not Loaded";
	case MISMATCH: return "Driver/library version mismatch";
	case UNSUPPORTED: return "Not Supported";
	case NO_PERMISSION: return "Insufficient Permissions";
	default: return "Unknown Error";
	}
}

static ret text(char *out, unsigned size, const char *value)
{
	if (strlen(value) + 1 > size)
		return SMALL;
	strcpy(out, value);
	return OK;
}

ret nvmlSystemGetDriverVersion(char *out, unsigned size) { return text(out, size, VERSION); }
ret nvmlSystemGetNVMLVersion(char *out, unsigned size) { char v[80]; snprintf(v, sizeof v, "%d.%s", CUDA / 1000, VERSION); return text(out, size, v); }
ret nvmlSystemGetCudaDriverVersion(int *out) { *out = CUDA; return OK; }
ret nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = CUDA; return OK; }
ret nvmlDeviceGetCount_v2(unsigned *out) { *out = count; return OK; }
ret nvmlDeviceGetHandleByIndex_v2(unsigned index, struct gpu **out)
{
	if (index >= (unsigned)count)
		return INVALID;
	*out = &gpus[index];
	return OK;
}
ret nvmlDeviceGetUUID(struct gpu *g, char *out, unsigned size) { return text(out, size, g->uuid); }
ret nvmlDeviceGetName(struct gpu *g, char *out, unsigned size) { return text(out, size, g->name); }
ret nvmlDeviceGetIndex(struct gpu *g, unsigned *out) { *out = g->index; return OK; }
ret nvmlDeviceGetMinorNumber(struct gpu *g, unsigned *out) { *out = g->index; return OK; }

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
ret nvmlDeviceGetPciInfo_v3(struct gpu *g, struct pci *p)
{
	memset(p, 0, sizeof *p);
	sscanf(g->address, "%x:%x:%x", &p->domain, &p->bus, &p->device);
	p->id = (strtoul(g->device, NULL, 16) << 16) | 0x10de;
	snprintf(p->legacy, sizeof p->legacy, "%04X:%02X:%02X.0", p->domain & 0xffff, p->bus & 0xff, p->device & 0xff);
	snprintf(p->bus_id, sizeof p->bus_id, "%08X:%02X:%02X.0", p->domain, p->bus & 0xff, p->device & 0xff);
	return OK;
}
ret nvmlDeviceGetCudaComputeCapability(struct gpu *g, int *major, int *minor) { (void)g; *major = 9; *minor = 0; return OK; }
struct memory { unsigned long long total, a, b; };
ret nvmlDeviceGetMemoryInfo(struct gpu *g, struct memory *m) { m->total = g->memory; m->b = 500ull << 20; m->a = m->total - m->b; return OK; }
ret nvmlDeviceGetBAR1MemoryInfo(struct gpu *g, struct memory *m)
{
	m->total = 1;
	while (m->total < g->memory)
		m->total <<= 1;
	m->a = m->total - (1 << 20);
	m->b = 1 << 20;
	return OK;
}
ret nvmlDeviceGetEccMode(struct gpu *g, int *now, int *next) { (void)g; *now = *next = 1; return OK; }
ret nvmlDeviceGetRemappedRows(struct gpu *g, unsigned *a, unsigned *b, unsigned *c, unsigned *d) { (void)g; *a = *b = *c = *d = 0; return OK; }
ret nvmlDeviceGetRetiredPagesPendingStatus(struct gpu *g, int *out) { (void)g; (void)out; return UNSUPPORTED; }
ret nvmlDeviceGetPersistenceMode(struct gpu *g, int *out)
{
	struct stat s;
	(void)g;
	*out = stat("/run/nvidia-persistenced/socket", &s) == 0 || stat("/run/standin/persistence", &s) == 0;
	return OK;
}
ret nvmlDeviceGetComputeMode(struct gpu *g, int *out) { (void)g; *out = 0; return OK; }
ret nvmlDeviceGetPowerManagementLimit(struct gpu *g, unsigned *out) { (void)g; *out = 700000; return OK; }
ret nvmlDeviceGetPowerManagementDefaultLimit(struct gpu *g, unsigned *out) { (void)g; *out = 700000; return OK; }
ret nvmlDeviceGetVbiosVersion(struct gpu *g, char *out, unsigned size) { (void)g; return text(out, size, "96.00.A5.00.01"); }
ret nvmlDeviceGetGspFirmwareVersion(struct gpu *g, char *out) { (void)g; strcpy(out, VERSION); return OK; }
ret nvmlDeviceGetCurrPcieLinkGeneration(struct gpu *g, unsigned *out) { (void)g; *out = 5; return OK; }
ret nvmlDeviceGetMaxPcieLinkGeneration(struct gpu *g, unsigned *out) { (void)g; *out = 5; return OK; }
ret nvmlDeviceGetCurrPcieLinkWidth(struct gpu *g, unsigned *out) { (void)g; *out = 16; return OK; }
ret nvmlDeviceGetMaxPcieLinkWidth(struct gpu *g, unsigned *out) { (void)g; *out = 16; return OK; }
ret nvmlDeviceGetVirtualizationMode(struct gpu *g, unsigned *out) { (void)g; *out = 0; return OK; }
ret nvmlDeviceGetDriverModel(struct gpu *g, int *now, int *next) { (void)g; (void)now; (void)next; return UNSUPPORTED; }
ret nvmlDeviceGetDriverModel_v2(struct gpu *g, int *now, int *next) { (void)g; (void)now; (void)next; return UNSUPPORTED; }
ret nvmlDeviceGetMigMode(struct gpu *g, unsigned *now, unsigned *next) { (void)g; *now = *next = 0; return OK; }
ret nvmlDeviceGetNvLinkState(struct gpu *g, unsigned link, int *out) { (void)g; (void)link; (void)out; return UNSUPPORTED; }
ret nvmlDeviceGetGpuFabricInfoV(struct gpu *g, void *out) { (void)g; (void)out; return UNSUPPORTED; }
ret nvmlDeviceGetTotalEccErrors(struct gpu *g, int kind, int counter, unsigned long long *out) { (void)g; (void)kind; (void)counter; *out = 0; return OK; }
ret nvmlDeviceGetCurrentClocksEventReasons(struct gpu *g, unsigned long long *out) { (void)g; *out = 0; return OK; }
ret nvmlDeviceGetCurrentClocksThrottleReasons(struct gpu *g, unsigned long long *out) { (void)g; *out = 0; return OK; }

struct process { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };
/* /run/standin/processes: one pid a line, each on the first GPU. */
ret nvmlDeviceGetComputeRunningProcesses_v3(struct gpu *g, unsigned *n, struct process *out)
{
	unsigned found = 0, room = *n, pid;
	FILE *f = g->index ? NULL : fopen("/run/standin/processes", "r");
	while (f && fscanf(f, "%u%*[^\n]", &pid) == 1) {
		if (found < room && out) {
			out[found].pid = pid;
			out[found].memory = 1ull << 30;
			out[found].gpu_instance = out[found].compute_instance = 0xffffffff;
		}
		found++;
	}
	if (f)
		fclose(f);
	*n = found;
	return found > room ? SMALL : OK;
}
