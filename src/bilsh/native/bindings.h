// The parts of the Python module; each part binds its own functions.
#pragma once

#include <nanobind/nanobind.h>

void bind_encode(nanobind::module_& m);
void bind_search(nanobind::module_& m);
