// What a store's writer asks of its directory before and after every change.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "bindings.h"

namespace {

// The number in a name m-<ten digits>.json, 0 for other names.
std::uint64_t version_of(const char* name) {
    constexpr std::size_t digits = 10;
    if (std::strlen(name) != 2 + digits + 5 || std::memcmp(name, "m-", 2) || std::memcmp(name + 2 + digits, ".json", 5))
        return 0;
    std::uint64_t version = 0;
    for (std::size_t i = 2; i < 2 + digits; ++i) {
        if (name[i] < '0' || name[i] > '9') return 0;
        version = 10 * version + static_cast<std::uint64_t>(name[i] - '0');
    }
    return version;
}

// The highest version whose manifest is in a directory, 0 for none. The directory is opened anew: who lists through a
// descriptor moves the place of all others that do.
std::uint64_t newest_version(int directory) {
    std::uint64_t newest = 0;
    int failed = 0;
    {
        nb::gil_scoped_release unlocked;
        const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (DIR* const listing = fd < 0 ? nullptr : fdopendir(fd)) {
            errno = 0;
            while (const dirent* entry = readdir(listing)) newest = std::max(newest, version_of(entry->d_name));
            failed = errno;
            closedir(listing);
        } else {
            failed = errno;
            if (fd >= 0) close(fd);
        }
    }
    if (failed) {
        errno = failed;
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }
    return newest;
}

struct Identity {
    std::uint64_t device, inode;
    bool operator==(const Identity& other) const { return device == other.device && inode == other.inode; }
};

// Which file a name in a directory stands for, links not followed, or with an empty name the directory itself; none
// where there is no such file. Linux is not asked for times: a file whose times were asked for gets a new time with the
// next write and not just once per tick of the clock, and all files written after it too; each time is one more block
// that the next sync must write.
std::optional<Identity> identity(int directory, const char* name) {
#if defined(STATX_INO)
    struct statx found;
    if (statx(directory, name, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH, STATX_INO, &found)) return std::nullopt;
    return Identity{std::uint64_t{found.stx_dev_major} << 32 | found.stx_dev_minor, found.stx_ino};
#else
    struct stat found;
    if (*name ? fstatat(directory, name, &found, AT_SYMLINK_NOFOLLOW) : fstat(directory, &found)) return std::nullopt;
    return Identity{static_cast<std::uint64_t>(found.st_dev), static_cast<std::uint64_t>(found.st_ino)};
#endif
}

// Whether a name in a directory still stands for an open file, which carries these bytes at an offset.
bool is_named(int directory, const char* name, int file, const nb::bytes& mark, std::size_t at) {
    const auto here = identity(directory, name), mine = identity(file, "");
    if (!here || !mine || !(*here == *mine)) return false;
    std::vector<char> found(mark.size());
    const ssize_t n = pread(file, found.data(), found.size(), static_cast<off_t>(at));
    return n == static_cast<ssize_t>(found.size()) && std::equal(found.begin(), found.end(), mark.c_str());
}

}  // namespace

void bind_files(nb::module_& m) {
    m.def("newest_version", &newest_version, nb::arg("directory"),
          "The highest version whose manifest is in an open directory, 0 for none.");
    m.def("is_named", &is_named, nb::arg("directory"), nb::arg("name"), nb::arg("file"), nb::arg("mark"), nb::arg("at"),
          "Whether a name in an open directory stands for an open file that has these bytes at an offset.");
}
