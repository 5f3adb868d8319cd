// The compiled core as Python sees it: the choice of instruction set, and the parts bound elsewhere.
#if defined(__linux__)
#    include <sys/syscall.h>
#    include <unistd.h>
#endif

#include "bindings.h"
#include "kernels.h"

bool signal_raised() {
#if defined(__linux__)
    if (syscall(SYS_gettid) != getpid()) return false;  // signals are handled on the main thread only
#endif
    nb::gil_scoped_acquire locked;
    return PyErr_CheckSignals() != 0;
}

NB_MODULE(_native, m) {
    if (const char* wanted = std::getenv("BILSH_LEVEL")) bilsh::force_level(wanted);
    nb::set_leak_warnings(false);  // an index that lives until Python ends is no leak
    m.def("level", [] { return bilsh::kernels().name; }, "Instruction set the kernels run on.");
    m.def(
        "levels",
        [] {
            std::vector<std::string> names;
            for (bilsh::Level level : bilsh::available_levels()) names.emplace_back(bilsh::kernels(level).name);
            return names;
        },
        "Instruction sets this machine can run, slowest first.");
    m.def("force_level", &bilsh::force_level, nb::arg("name"),
          "Run the kernels on a given instruction set ('auto' for the best).");
    m.def("set_least_share", &bilsh::set_least_share, nb::arg("nanoseconds"),
          "Work that a call must have for each of its threads (100,000); 0 for tests of threads on small data.");
    bind_encode(m);
    bind_search(m);
    bind_cells(m);
    bind_transform(m);
    bind_log(m);
    bind_files(m);
    bind_hits(m);
}
