// Records of a store's log as Python sees them.
#include "bindings.h"
#include "log_records.h"

namespace {

const std::uint8_t* bytes_of(const nb::bytes& data) { return reinterpret_cast<const std::uint8_t*>(data.c_str()); }

std::tuple<Out<std::uint8_t, 1>, Out<std::int64_t, 1>, std::size_t> unpack_records(const nb::bytes& log, std::size_t at,
                                                                                   std::uint64_t base,
                                                                                   std::uint32_t seed,
                                                                                   std::size_t most) {
    require(at <= log.size(), "at must not lie behind the log");
    require(most < std::size_t{1} << 28, "most must be less than 2**28");
    bilsh::LogRecords found = bilsh::unpack_records(bytes_of(log), log.size(), at, base, seed, most);
    return {array_of(std::move(found.plain)), array_of(std::move(found.starts)), found.end};
}

nb::bytes pack_record(const nb::bytes& plain, std::uint64_t at, std::uint32_t seed) {
    require(plain.size() < std::size_t{1} << 27, "a record has less than 2**27 bytes");
    const std::vector<std::uint8_t> packed = bilsh::pack_record(bytes_of(plain), plain.size(), at, seed);
    return nb::bytes(packed.data(), packed.size());
}

}  // namespace

void bind_log(nb::module_& m) {
    m.def("unpack_records", &unpack_records, nb::arg("log"), nb::arg("at"), nb::arg("base"), nb::arg("seed"),
          nb::arg("most"),
          "Bytes of all whole records of a log, where each begins (and the last ends), and where the next would.");
    m.def("pack_record", &pack_record, nb::arg("plain"), nb::arg("at"), nb::arg("seed"),
          "Bytes of a record that begins at an offset of a log.");
}
