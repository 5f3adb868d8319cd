// The compiled core as Python sees it: the choice of instruction set, and the parts bound elsewhere.
#include "bindings.h"
#include "kernels.h"

NB_MODULE(_native, m) {
    m.def("level", [] { return bilsh::kernels().name; }, "Instruction set the kernels run on.");
    m.def("levels", [] {
        std::vector<std::string> names;
        for (bilsh::Level level : bilsh::available_levels()) names.emplace_back(bilsh::kernels(level).name);
        return names;
    }, "Instruction sets this machine can run, slowest first.");
    m.def("force_level", &bilsh::force_level, nb::arg("name"),
          "Run the kernels on a given instruction set ('auto' for the best).");
    bind_encode(m);
    bind_search(m);
}
