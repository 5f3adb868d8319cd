// Cells as Python sees them. Type, shape and bounds of arguments are checked here; meaning in Python.
#include <algorithm>

#include "bind_codes.h"
#include "cells.h"
#include "regions.h"

namespace {

using Offsets = In<std::int64_t, 1>;
using Ranks = OptionalIn<double, 1>;
using Regions = std::shared_ptr<bilsh::Regions>;
using Visited = std::tuple<Out<std::int64_t, 2>, Out<std::int32_t, 2>, Out<std::int32_t, 2>, std::int64_t, std::int64_t,
                           std::int64_t, double, std::int32_t, double>;

// Codes in the order of their cells, checked once: it holds the arrays, so that a query has nothing to look at but its
// own.
class CellSet {
public:
    CellSet(Slabs slabs, Offsets offsets, Regions regions, Ids ids, Bitmap alive, std::size_t cached)
        : slabs_(std::move(slabs)),
          offsets_(std::move(offsets)),
          regions_(std::move(regions)),
          ids_(std::move(ids)),
          alive_(std::move(alive)) {
        for (const Codes& slab : slabs_) bytes_ += slab.shape(1);
        set_ = code_set(slabs_, bytes_, ids_, alive_);
        living_ = set_.count_alive();
        stages_ = bilsh::stages_of(set_, cached);
        require(offsets_.shape(0) >= 2, "offsets must have one entry more than there are cells, at least 2");
        const std::size_t n = offsets_.shape(0) - 1;
        const std::int64_t* at = offsets_.data();
        bool ascending = at[0] == 0 && static_cast<std::uint64_t>(at[n]) == set_.n;
        for (std::size_t cell = 0; cell < n; ++cell) ascending = ascending && at[cell] <= at[cell + 1];
        require(ascending, "offsets must ascend from 0 to the number of rows, " + text(set_.n));
        if (set_.alive) {
            rows_alive_.resize(n);
            for (std::size_t cell = 0; cell < n; ++cell)
                for (std::int64_t row = at[cell]; row < at[cell + 1]; ++row)
                    rows_alive_[cell] += set_.is_alive(static_cast<std::size_t>(row));
        }
        require(regions_->n_cells() == n && regions_->bytes() <= bytes_,
                "regions must be of " + text(n) + " centres of at most the " + text(bytes_) + " bytes of a code; got " +
                    text(regions_->n_cells()) + " of " + text(regions_->bytes()));
    }

    std::size_t living() const { return living_; }

    // Bits that are read before rows are left.
    nb::tuple prefixes() const {
        nb::list bits;
        for (std::size_t i = stages_.together; i < stages_.later.size(); ++i) bits.append(8 * stages_.later[i].offset);
        return nb::tuple(bits);
    }

    Visited top_k(const Codes& queries, std::size_t k, std::size_t first, std::size_t seeds, std::int32_t slope,
                  double share, std::int32_t slack, std::int32_t width, const In<std::int32_t, 2>& limits, int n_jobs,
                  const Ranks& ranks) const {
        const bilsh::Queries asked = asked_of(queries);
        const std::size_t prefixes = stages_.n_prefixes();
        require(limits.shape(0) == prefixes && (limits.shape(1) > 0 || prefixes == 0),
                "limits must have a row for every prefix, " + text(prefixes) +
                    ", and a column for every distance; got shape (" + text(limits.shape(0)) + ", " +
                    text(limits.shape(1)) + ")");
        require(slope >= 0, "slope must be at least 0");
        require(share >= 0 && share <= 1e6, "share must be at least 0");
        require(width >= 0, "width must be at least 0");
        require(!ranks || ranks->shape(0) > 0, "ranks must have an entry for bounds beyond all others");
        const std::size_t n_found = std::min(k, living_);
        auto found = new_matrix<std::int64_t>(asked.n, n_found);
        auto distances = new_matrix<std::int32_t>(asked.n, n_found);
        auto visits = new_matrix<std::int32_t>(3, asked.n);
        std::vector<bilsh::Visit> seen(asked.n);
        bilsh::Reading reading;
        unlocked([&] {
            reading = bilsh::cells_top_k(
                asked, set_, stages_, cells(), n_found, {std::min(first, living_), seeds, slope, share, slack, width},
                {limits.data(), limits.shape(1)}, thread_count(n_jobs), found.data(), distances.data(), seen.data());
        });
        std::int32_t farthest = 0;
        double rank = 0;
        for (std::size_t q = 0; q < asked.n; ++q) {
            const std::int32_t bound = seen[q].bound;
            visits.data()[q] = bound;
            visits.data()[asked.n + q] = seen[q].front;
            visits.data()[2 * asked.n + q] = seen[q].cells;
            farthest = std::max(farthest, bound);
            if (ranks) rank += ranks->data()[std::min<std::size_t>(std::max(bound, 0), ranks->shape(0) - 1)];
        }
        if (asked.n) rank /= static_cast<double>(asked.n);
        return {found,           distances, visits, reading.centres, reading.rows, reading.bytes,
                reading.ranking, farthest,  rank};
    }

    Out<std::int32_t, 2> far(const Codes& queries, std::int32_t width, int n_jobs) const {
        const bilsh::Queries asked = asked_of(queries);
        require(width >= 0, "width must be at least 0");
        auto out = new_matrix<std::int32_t>(asked.n, regions_->n_cells());
        unlocked([&] { bilsh::distances_to_centres(asked, cells(), width, thread_count(n_jobs), out.data()); });
        return out;
    }

private:
    bilsh::Queries asked_of(const Codes& queries) const {
        const bilsh::Queries asked = queries_of(queries);
        require(asked.bytes == bytes_,
                "queries must be as long as codes, " + text(bytes_) + " bytes; got " + text(asked.bytes));
        return asked;
    }

    bilsh::Cells cells() const {
        return {offsets_.data(), regions_.get(), regions_->bytes(), regions_->n_cells(),
                set_.alive ? rows_alive_.data() : nullptr};
    }

    Slabs slabs_;
    Offsets offsets_;
    Regions regions_;
    Ids ids_;
    Bitmap alive_;
    std::size_t bytes_ = 0, living_ = 0;
    bilsh::CodeSet set_;
    bilsh::Stages stages_;
    std::vector<std::uint32_t> rows_alive_;  // of each cell, where some are not
};

Regions regions_of(const Codes& centres, std::size_t n) {
    require(centres.shape(1) > 0, "centres must have a byte");
    require(n > 0 && n <= centres.shape(0),
            "there must be a region, and a centre for each; got " + text(n) + " of " + text(centres.shape(0)));
    return std::make_shared<bilsh::Regions>(queries_of(centres), n);
}

Out<std::int32_t, 1> region_of_cells(const bilsh::Regions& regions) {
    std::vector<std::int32_t> of(regions.n_cells());
    for (std::size_t region = 0; region < regions.n(); ++region)
        for (std::size_t i = regions.begin(region); i < regions.begin(region + 1); ++i)
            of[regions.cells()[i]] = static_cast<std::int32_t>(region);
    return array_of(std::move(of));
}

Out<std::uint8_t, 2> middles(const bilsh::Regions& regions) {
    const std::size_t n = regions.n() > 1 ? regions.n() : 0;
    auto out = new_matrix<std::uint8_t>(n, regions.bytes());
    std::copy_n(regions.middles(), n * regions.bytes(), out.data());
    return out;
}

Out<std::int32_t, 1> nearest_centres(const Codes& codes, const Codes& centres, int n_jobs) {
    const bilsh::Queries rows = queries_of(codes), near = queries_of(centres);
    require(near.n > 0, "there must be a centre");
    require(near.bytes == rows.bytes,
            "centres must be as long as codes, " + text(rows.bytes) + " bytes; got " + text(near.bytes));
    std::vector<std::int32_t> out(rows.n);
    unlocked([&] { bilsh::nearest_centres(rows, near, thread_count(n_jobs), out.data()); });
    return array_of(std::move(out));
}

Out<std::uint8_t, 2> majority(const Codes& codes, const In<std::int32_t, 1>& cell_of, const Codes& centres,
                              int n_jobs) {
    const bilsh::Queries rows = queries_of(codes);
    const std::size_t n = centres.shape(0);
    require(centres.shape(1) == rows.bytes,
            "centres must be as long as codes, " + text(rows.bytes) + " bytes; got " + text(centres.shape(1)));
    require(cell_of.shape(0) == rows.n,
            "cell_of must have one entry per code, " + text(rows.n) + "; got " + text(cell_of.shape(0)));
    for (std::size_t i = 0; i < rows.n; ++i)
        require(cell_of.data()[i] >= 0 && static_cast<std::size_t>(cell_of.data()[i]) < n,
                "cell_of must be from 0 to " + text(n) + " - 1");
    auto out = new_matrix<std::uint8_t>(n, rows.bytes);
    std::copy_n(centres.data(), n * rows.bytes, out.data());
    unlocked([&] { bilsh::majority(rows, cell_of.data(), n, thread_count(n_jobs), out.data()); });
    return out;
}

}  // namespace

void bind_cells(nb::module_& m) {
    nb::class_<bilsh::Regions>(m, "Regions", "Cells that are near each other, by their centres.")
        .def(nb::new_(&regions_of), nb::arg("centres").noconvert(), nb::arg("n"))
        .def("of", &region_of_cells, "Region of each cell.")
        .def("middles", &middles, "The middle of each region; none where there is only one.");
    nb::class_<CellSet>(m, "CellSet", "Codes in the order of their cells.")
        .def(nb::init<Slabs, Offsets, Regions, Ids, Bitmap, std::size_t>(), nb::arg("slabs").noconvert(),
             nb::arg("offsets").noconvert(), nb::arg("regions"), nb::arg("ids").noconvert() = nb::none(),
             nb::arg("alive").noconvert() = nb::none(), nb::arg("cached") = 0,
             "Where the first two stages of all rows take at most `cached` bytes, both are read at once.")
        .def_prop_ro("living", &CellSet::living, "Number of living rows.")
        .def_prop_ro("prefixes", &CellSet::prefixes, nb::sig("def prefixes(self) -> tuple[int, ...]"),
                     "Bits after which rows are left, for each but the last time that more is read.")
        .def("top_k", &CellSet::top_k, nb::arg("queries").noconvert(), nb::arg("k"), nb::arg("first"), nb::arg("seeds"),
             nb::arg("slope"), nb::arg("share"), nb::arg("slack"), nb::arg("width"), nb::arg("limits").noconvert(),
             nb::arg("n_jobs") = 1, nb::arg("ranks").noconvert() = nb::none(),
             "The k nearest codes of each query in the cells it visits: ids, distances, visits (3, q), centres that "
             "were "
             "looked at, rows and bytes read by all, seconds that the way to the cells took, the largest bound, the "
             "mean "
             "of the bounds' ranks. Visits are the bound on the k-th distance, how far the farthest of the first cells "
             "was, and the number of cells; `ranks` has the rank of every bound, the last that of all beyond.")
        .def("far", &CellSet::far, nb::arg("queries").noconvert(), nb::arg("width"), nb::arg("n_jobs") = 1,
             "Distances of queries to centres; where a query does not look, one more than the largest.");
    m.def("nearest_centres", &nearest_centres, nb::arg("codes").noconvert(), nb::arg("centres").noconvert(),
          nb::arg("n_jobs") = 1, "Number of the nearest centre of each code, of equals the first.");
    m.def("majority", &majority, nb::arg("codes").noconvert(), nb::arg("cell_of").noconvert(),
          nb::arg("centres").noconvert(), nb::arg("n_jobs") = 1,
          "New centres: the majority of each bit among the codes of each cell; cells without codes keep theirs.");
}
