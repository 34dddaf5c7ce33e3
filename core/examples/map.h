/* A file as bytes, for the examples: mapped, so it lies on a page and nothing is copied. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const void *map_file(const char *path, size_t *size) {
    struct stat status;
    void *bytes = MAP_FAILED;
    int file = open(path, O_RDONLY);
    if (file >= 0 && fstat(file, &status) == 0) {
        *size = (size_t)status.st_size;
        bytes = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, file, 0);
    }
    if (file >= 0) {
        close(file);
    }
    if (bytes == MAP_FAILED) {
        fprintf(stderr, "cannot read %s\n", path);
        return NULL;
    }
    return bytes;
}
