/* Preloaded into a node by the lab: makes fsync and fdatasync fail or slow down while a file says so.
 *
 * NEMESIS_DISK names the file. Its first letter decides: E, the call fails with EIO and writes nothing back;
 * S, the call takes as many milliseconds longer as the number behind it. No file, no difference.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int order(char *text, size_t size)
{
    const char *path = getenv("NEMESIS_DISK");
    int saved = errno;
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t count = file < 0 ? 0 : read(file, text, size - 1);
    if (file >= 0)
        close(file);
    text[count > 0 ? count : 0] = 0;
    errno = saved;
    return count > 0;
}

static int flush(const char *name, int file)
{
    char text[32];
    if (order(text, sizeof text) && text[0] == 'E') {
        errno = EIO;
        return -1;
    }
    if (text[0] == 'S') {
        long slow = atol(text + 1);
        struct timespec pause = {slow / 1000, slow % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return next(file);
}

int fsync(int file) { return flush("fsync", file); }
int fdatasync(int file) { return flush("fdatasync", file); }
