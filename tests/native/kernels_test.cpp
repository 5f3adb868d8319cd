// The compiled core without Python: every level this machine has, against plain loops, and against codes and scores
// made elsewhere. Built for sanitizers, other compilers and other processors (make sanitize, make clang, make
// test-arm).
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "encode.h"
#include "finite.h"
#include "hamming.h"
#include "kernels.h"
#include "log_records.h"
#include "progressive.h"
#include "scores.h"
#include "sliced_scan.h"
#include "threads.h"
#include "transform.h"

namespace {

using bilsh::CodeSet;
using bilsh::Queries;
using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

int failures = 0;

void check(bool holds, const std::string& what) {
    if (holds) return;
    ++failures;
    std::printf("FAILED on %s: %s\n", bilsh::kernels().name, what.c_str());
}

// The same numbers on every machine.
struct Numbers {
    std::uint64_t state = 1;

    std::uint32_t next() {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<std::uint32_t>(state >> 33);
    }
    Bytes bytes(std::size_t n) {
        Bytes values(n);
        for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(next() >> 5);
        return values;
    }
    Floats floats(std::size_t n) {
        Floats values(n);
        for (float& value : values) value = (static_cast<float>(next() % 65536) - 32768.0f) / 16384.0f;
        return values;
    }
};

template <class T>
std::uint64_t digest(const std::vector<T>& values) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
    for (std::size_t i = 0; i < values.size() * sizeof(T); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

template <class T>
void golden(const std::vector<T>& values, std::uint64_t expected, const std::string& what) {
    const std::uint64_t found = digest(values);
    char text[80];
    std::snprintf(text, sizeof text, ": digest %016llx, expected %016llx", static_cast<unsigned long long>(found),
                  static_cast<unsigned long long>(expected));
    check(found == expected, what + text);
}

// ---- search
// -----------------------------------------------------------------------------------------------------------

std::int32_t distance(const std::uint8_t* a, const std::uint8_t* b, std::size_t n) {
    std::int32_t sum = 0;
    for (std::size_t j = 0; j < n; ++j)
        for (unsigned x = a[j] ^ b[j]; x != 0; x >>= 1) sum += x & 1;
    return sum;
}

// Codes cut into slabs that own exactly their bytes, so that a sanitizer sees a step beyond them.
struct Slabs {
    std::vector<Bytes> parts;
    CodeSet set;

    Slabs(const Bytes& codes, std::size_t n, std::size_t n_bytes, std::vector<std::size_t> edges) {
        edges.insert(edges.begin(), 0);
        edges.push_back(n_bytes);
        parts.resize(edges.size() - 1);
        for (std::size_t s = 0; s + 1 < edges.size(); ++s)
            for (std::size_t r = 0; r < n; ++r)
                parts[s].insert(parts[s].end(), codes.data() + r * n_bytes + edges[s],
                                codes.data() + r * n_bytes + edges[s + 1]);
        for (std::size_t s = 0; s + 1 < edges.size(); ++s)
            set.slabs.push_back({parts[s].data(), edges[s + 1] - edges[s]});
        set.n = n;
    }
};

void search(std::size_t n, std::size_t n_bytes, std::size_t n_queries, std::vector<std::size_t> edges, int n_jobs) {
    const std::string what = std::to_string(n) + " codes of " + std::to_string(n_bytes) + " bytes, " +
                             std::to_string(n_queries) + " queries, " + std::to_string(n_jobs) + " threads";
    Numbers numbers;
    const Bytes codes = numbers.bytes(n * n_bytes), asked = numbers.bytes(n_queries * n_bytes);
    const Queries queries{asked.data(), n_queries, n_bytes};
    std::vector<std::int32_t> expected(n_queries * n);
    for (std::size_t q = 0; q < n_queries; ++q)
        for (std::size_t r = 0; r < n; ++r)
            expected[q * n + r] = distance(asked.data() + q * n_bytes, codes.data() + r * n_bytes, n_bytes);
    std::vector<std::int32_t> found(n_queries * n, -1);
    bilsh::hamming_matrix(queries, {codes.data(), n, n_bytes}, n_jobs, found.data());
    check(found == expected, "hamming_matrix of " + what);

    const Slabs slabs(codes, n, n_bytes, edges);
    const std::size_t k = std::min<std::size_t>(7, n);
    std::vector<std::int64_t> order(n), want_ids, ids(n_queries * k), later_ids(n_queries * k);
    std::vector<std::int32_t> want, distances(n_queries * k), later(n_queries * k);
    for (std::size_t q = 0; q < n_queries; ++q) {
        for (std::size_t r = 0; r < n; ++r) order[r] = static_cast<std::int64_t>(r);
        std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
            return expected[q * n + static_cast<std::size_t>(a)] < expected[q * n + static_cast<std::size_t>(b)];
        });
        for (std::size_t i = 0; i < k; ++i) {
            want_ids.push_back(order[i]);
            want.push_back(expected[q * n + static_cast<std::size_t>(order[i])]);
        }
    }
    bilsh::hamming_top_k(queries, slabs.set, k, n_jobs, ids.data(), distances.data());
    check(ids == want_ids && distances == want, "hamming_top_k of " + what);
    const std::int32_t radius = n_bytes == 0 ? 0 : static_cast<std::int32_t>(4 * n_bytes - n_bytes / 4);
    const bilsh::Matches matches = bilsh::hamming_within(queries, slabs.set, radius, n_jobs);
    std::size_t close = 0;
    for (const std::int32_t value : expected) close += value <= radius;
    check(matches.ids.size() == close, "hamming_within of " + what);
    if (edges.empty()) return;
    std::vector<std::int32_t> limits(edges.size() * (8 * n_bytes + 1));  // nothing is lost by these
    for (std::size_t i = 0; i < limits.size(); ++i) limits[i] = static_cast<std::int32_t>(i % (8 * n_bytes + 1));
    bilsh::progressive_top_k(queries, slabs.set, k, {limits.data(), 8 * n_bytes + 1}, 5, n_jobs, later_ids.data(),
                             later.data());
    check(later_ids == want_ids && later == want, "progressive_top_k of " + what);
}

// Rows by bit, however few: every row that is close, and how far it is.
void slices(std::size_t n, std::size_t n_bytes, std::size_t n_queries, std::vector<std::size_t> edges) {
    const std::string what = "slices of " + std::to_string(n) + " codes of " + std::to_string(n_bytes) + " bytes, " +
                             std::to_string(n_queries) + " queries";
    Numbers numbers;
    const Bytes codes = numbers.bytes(n * n_bytes);
    Bytes asked = numbers.bytes(n_queries * n_bytes);
    if (n_queries % 2 == 1) std::fill(asked.begin(), asked.end(), 255);  // one group has all bits
    const Queries queries{asked.data(), n_queries, n_bytes};
    const Slabs slabs(codes, n, n_bytes, edges);
    const bilsh::SlicedQueries sliced(queries, slabs.set.slabs.data(), slabs.set.slabs.size());
    bilsh::SlicedRows rows(bilsh::kernels(), sliced, slabs.set.slabs.data());
    const std::int32_t some = static_cast<std::int32_t>(4 * n_bytes - n_bytes / 4);
    for (const std::int32_t limit : {-1, 0, some, std::numeric_limits<std::int32_t>::max()}) {
        std::vector<std::int32_t> found(n_queries * n, -1), expected(n_queries * n, -1);
        for (std::size_t row = 0, m; row < n; row += m) {
            m = std::min(rows.rows(), n - row);
            rows.scan(
                row, m, std::min(rows.rows(), n - row - m), 0, n_queries, [&](std::size_t) { return limit; },
                [&](std::size_t q, std::size_t r, std::int32_t d) { found[q * n + r] = d; });
        }
        for (std::size_t q = 0; q < n_queries; ++q)
            for (std::size_t r = 0; r < n; ++r) {
                const std::int32_t d = distance(queries.at(q), codes.data() + r * n_bytes, n_bytes);
                if (d <= limit) expected[q * n + r] = d;
            }
        check(found == expected, what);
    }
}

// The digits of sums, on the edge between two steps too, against a plain loop.
void digits() {
    Numbers numbers;
    for (const int bits : {6, 8})
        for (const int n_digits : {1, 2}) {
            const int most = (1 << n_digits * bits) - 1;
            for (int turn = 0; turn < 200; ++turn) {
                Floats sums = numbers.floats(16);
                const float least = *std::min_element(sums.begin(), sums.end());
                const float widest = *std::max_element(sums.begin(), sums.end()) - least;
                // Every other time wider than the digits, so that the largest sums are cut.
                const float scale = static_cast<float>(most + turn % 2 * turn) / widest;
                sums[0] = least + 2.5f / scale;
                Bytes first(16), second(16), low(16), high(16);
                for (std::size_t p = 0; p < 16; ++p) {
                    const float step = std::min((sums[p] - least) * scale + 0.5f, static_cast<float>(most));
                    low[p] = static_cast<std::uint8_t>(static_cast<int>(step) % (1 << bits));
                    high[p] = static_cast<std::uint8_t>(n_digits == 1 ? 0 : static_cast<int>(step) / (1 << bits));
                }
                bilsh::kernels().scores.digits(sums.data(), least, scale, static_cast<float>(most), bits, first.data(),
                                               n_digits == 1 ? nullptr : second.data());
                check(first == low && second == high, std::to_string(n_digits) + " digits of a half byte");
            }
        }
}

// Weights of set bits, in lanes, against a plain loop.
void real_weights() {
    Numbers numbers;
    for (const std::size_t n_bytes : {1, 2, 7, 28, 60, 125}) {
        const Bytes row = numbers.bytes(n_bytes);
        const Floats weights = numbers.floats((8 * n_bytes + 31) / 32 * 32);
        Floats lane = numbers.floats(bilsh::bit_lanes), expected = lane;
        for (std::size_t r = 0; r < 8 * n_bytes; ++r)
            expected[r % bilsh::bit_lanes] += row[r / 8] >> r % 8 & 1 ? weights[r] : 0.0f;
        bilsh::kernels().transforms.add_real_weights(row.data(), n_bytes, weights.data(), lane.data());
        check(lane == expected, "weights of " + std::to_string(n_bytes) + " bytes");
    }
}

void scores(std::size_t n, std::size_t bits, std::vector<std::size_t> edges, int n_jobs, std::uint64_t expected) {
    const std::string what = std::to_string(n) + " codes of " + std::to_string(bits) + " bits";
    Numbers numbers;
    const std::size_t n_bytes = (bits + 7) / 8, n_queries = 3, k = 9;
    Bytes codes = numbers.bytes(n * n_bytes);
    if (bits % 8 != 0)
        for (std::size_t r = 0; r < n; ++r)
            codes[(r + 1) * n_bytes - 1] &= static_cast<std::uint8_t>((1u << bits % 8) - 1);
    const Floats weights = numbers.floats(n_queries * bits), bias = numbers.floats(n_queries);
    const Slabs slabs(codes, n, n_bytes, edges);
    const bilsh::Weights asked{weights.data(), bias.data(), n_queries, bits};
    Floats all(n_queries * n), best(n_queries * k), some(n_queries * 2);
    bilsh::scores(asked, slabs.set, n_jobs, all.data());
    golden(all, expected, "scores of " + what);
    std::vector<std::int64_t> ids(n_queries * k), rows(n_queries * 2, static_cast<std::int64_t>(n - 1));
    bilsh::score_top_k(asked, slabs.set, k, n_jobs, ids.data(), best.data());
    bilsh::score_rows(asked, slabs.set, rows.data(), 2, n_jobs, some.data());
    for (std::size_t q = 0; q < n_queries; ++q) {
        std::vector<std::int64_t> order(n);
        for (std::size_t r = 0; r < n; ++r) order[r] = static_cast<std::int64_t>(r);
        const float* value = all.data() + q * n;
        std::stable_sort(order.begin(), order.end(),
                         [&](std::int64_t a, std::int64_t b) { return value[a] > value[b]; });
        for (std::size_t i = 0; i < k; ++i)
            check(ids[q * k + i] == order[i] && best[q * k + i] == value[order[i]], "score_top_k of " + what);
        check(some[2 * q] == value[n - 1] && some[2 * q + 1] == value[n - 1], "score_rows of " + what);
    }
}

// ---- encoding
// ---------------------------------------------------------------------------------------------------------

void encode(const bilsh::Plan& plan, std::size_t n, int n_jobs, std::uint64_t code_digest, std::uint64_t value_digest,
            const std::string& what) {
    Numbers numbers;
    numbers.state = n;
    const Floats x = numbers.floats(n * plan.dimension());
    Bytes codes(n * plan.bits().bytes());
    Floats values(n * plan.bits().size());
    std::atomic<bool> nonfinite{false};
    bilsh::Output output;
    output.nonfinite = &nonfinite;
    output.codes = codes.data();
    plan.run(x.data(), n, output, n_jobs);
    golden(codes, code_digest, what + ", codes");
    output.codes = nullptr;
    output.values = values.data();
    plan.run(x.data(), n, output, n_jobs);
    golden(values, value_digest, what + ", values");
    check(!nonfinite && bilsh::first_nonfinite(values.data(), values.size()) == -1, what + " is finite");
}

void encoders(int n_jobs) {
    Numbers numbers;
    const std::size_t k = 203;
    const Floats offsets = numbers.floats(k), weights = numbers.floats(40 * 187);
    Floats tau(k);
    for (float& value : tau) value = static_cast<float>(numbers.next() % 1024) / 2048.0f;
    std::vector<std::int32_t> pairs, outputs, permutation(11 * 17);
    for (std::size_t r = 0; r < k; ++r) {
        pairs.push_back(static_cast<std::int32_t>(numbers.next() % 40));
        pairs.push_back(static_cast<std::int32_t>(numbers.next() % 23));
        outputs.push_back(static_cast<std::int32_t>(numbers.next() % 40));
    }
    for (std::size_t e = 0; e < permutation.size(); ++e) permutation[e] = static_cast<std::int32_t>(e * 5 % 187);
    Floats signs(3 * 256);
    for (float& sign : signs) sign = numbers.next() % 2 ? 1.0f : -1.0f;
    const Floats left = numbers.floats(40 * 11), right = numbers.floats(23 * 17);
    const bilsh::BilinearPlan plain({40, 11, 23, 17, 187}, left.data(), right.data(), pairs.data(), k, offsets.data(),
                                    tau.data(), nullptr, nullptr, true);
    const bilsh::BilinearPlan scrambled({40, 11, 23, 17, 180}, left.data(), right.data(), pairs.data(), k,
                                        offsets.data(), nullptr, permutation.data(), signs.data(), false);
    const bilsh::DensePlan dense(weights.data(), 187, outputs.data(), k, offsets.data(), tau.data());
    const bilsh::HadamardPlan hadamard(signs.data(), 1, 256, outputs.data(), k, 187, 1.0f / 4096, offsets.data(),
                                       tau.data());
    const Floats scale(40, 0.25f);
    const std::size_t few = 3, many = 75;
    encode(plain, few, n_jobs, 0xab30add1b02466de, 0x1cb3243761f9dc8a, "bilinear, few items");
    encode(plain, many, n_jobs, 0xe6b9bb790a4fd51f, 0x76cd3e6572c6574f, "bilinear, many items");
    encode(scrambled, few, n_jobs, 0x34ac664fcb4933ea, 0xb5239e42cf143282, "scrambled, few items");
    encode(scrambled, many, n_jobs, 0xdbfb412ca27049ed, 0x76604f0180e5a7c7, "scrambled, many items");
    encode(dense, few, n_jobs, 0x8fa5af67bee39178, 0xc4cc7411c10ded38, "dense, few items");
    encode(dense, many, n_jobs, 0xa2a56744fd2ecc9f, 0xe1722782aa710c72, "dense, many items");
    encode(hadamard, few, n_jobs, 0x79c41365bd04d738, 0x93a4d4ba435fcb5f, "Hadamard");
    const bilsh::Variate kinds[] = {bilsh::Variate::gaussian, bilsh::Variate::cauchy, bilsh::Variate::laplace};
    const std::uint64_t streams[3][3] = {
        {0xdbe2a7099e7809c3, 0xb60cfedfb4eb6c63, 0x58ced485574577e8},
        {0x2fb86b5d12d67f07, 0xbf5edda3f072db59, 0xe2cb5c8f7e8d31b2},
        {0x17c8844d348461ea, 0x3e1d94546ed78e67, 0xd97f4629eb669417},
    };
    for (int i = 0; i < 3; ++i) {
        const std::string what = "stream " + std::to_string(i);
        Floats stream(7 * 150);
        bilsh::dense_weights(11, kinds[i], scale.data(), 150, 2, 9, stream.data());
        golden(stream, streams[i][0], what);
        const bilsh::DensePlan streamed(11, kinds[i], scale.data(), 40, 187, outputs.data(), k, offsets.data(),
                                        tau.data(), 1 << 16);
        encode(streamed, many, n_jobs, streams[i][1], streams[i][2], what);
    }
}

// Two centres, coordinates of 1 to 12 bits, items together and one by one.
void learned(int n_jobs) {
    Numbers numbers;
    const std::size_t d = 187, m = 150, n_bits = 8 * 122, n = 75;
    const Floats centres = numbers.floats(2 * d), weights = numbers.floats(2 * m * d), zeros(m, 0.0f);
    std::vector<std::int32_t> every(m), depths, coordinates(2 * n_bits, -1);
    for (std::size_t i = 0; i < m; ++i) every[i] = static_cast<std::int32_t>(i);
    Floats steps, scales = {0.0f}, errors = {0.001f};
    for (std::size_t c = 0; c < 2; ++c) {
        std::vector<std::int32_t> bits;
        for (std::size_t i = 0; i < m; ++i) {
            depths.push_back(static_cast<std::int32_t>(1 + i % 12));
            steps.push_back(4.0f / static_cast<float>(1 << depths.back()));
            bits.insert(bits.end(), static_cast<std::size_t>(depths.back()), static_cast<std::int32_t>(i));
        }
        for (std::size_t r = 0; r < bits.size() && r < n_bits; ++r)
            coordinates[c * n_bits + r * 5 % n_bits] = bits[r * 7 % bits.size()];
    }
    for (float scale = 0.1f; scales.size() < bilsh::scale_levels; scale *= 1.03125f) scales.push_back(scale);
    while (errors.size() + 1 < bilsh::error_levels) errors.push_back(errors.back() * 1.0625f);
    const bilsh::DensePlan nearest(centres.data(), d, every.data(), 2, zeros.data(), nullptr);
    const bilsh::DensePlan first(weights.data(), d, every.data(), m, zeros.data(), nullptr);
    const bilsh::DensePlan second(weights.data() + m * d, d, every.data(), m, zeros.data(), nullptr);
    bilsh::TransformParts parts{2,
                                d,
                                n_bits,
                                100,
                                &nearest,
                                {&first, &second},
                                centres.data(),
                                coordinates.data(),
                                steps.data(),
                                depths.data(),
                                scales.data(),
                                errors.data(),
                                {0.875f, 1.125f},
                                {},
                                0.125f,
                                0.0625f,
                                0.5f,
                                false};
    const bilsh::TransformPlan plan(parts);
    const Floats x = numbers.floats(n * d);
    Bytes together(n * plan.bytes()), alone(n * plan.bytes());
    std::atomic<bool> nonfinite{false};
    plan.encode(x.data(), n, together.data(), &nonfinite, n_jobs);
    for (std::size_t i = 0; i < n; ++i)
        plan.encode(x.data() + i * d, 1, alone.data() + i * plan.bytes(), &nonfinite, n_jobs);
    check(together == alone && !nonfinite, "learned codes, one by one");
    golden(together, 0xb093a92c1f2d6ff8, "learned codes");
    parts.origin.assign(d, 0.375f);
    const bilsh::TransformPlan moved(parts);
    Floats seen = x;
    for (float& value : seen) value -= 0.375f;
    for (const std::size_t items : {std::size_t{1}, n}) {
        plan.encode(seen.data(), items, together.data(), &nonfinite, n_jobs);
        moved.encode(x.data(), items, alone.data(), &nonfinite, n_jobs);
        check(std::equal(together.begin(), together.begin() + static_cast<std::ptrdiff_t>(items * plan.bytes()),
                         alone.begin()),
              "learned codes from an origin");
    }
}

// ---- threads
// ----------------------------------------------------------------------------------------------------------

void threads() {
    Numbers numbers;
    const Bytes codes = numbers.bytes(3000 * 24);
    const Slabs slabs(codes, 3000, 24, {8});
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (int caller = 0; caller < 4; ++caller)
        callers.emplace_back([&] {
            for (int i = 0; i < 20; ++i) {
                std::int64_t id = -1;
                std::int32_t far = -1;
                bilsh::hamming_top_k({codes.data() + 24 * i, 1, 24}, slabs.set, 1, 3, &id, &far);
                wrong += id != i || far != 0;
            }
        });
    for (std::thread& caller : callers) caller.join();
    check(wrong == 0, "searches from several threads");

    for (const int n_jobs : {1, 3}) {
        bool interrupted = false;
        std::atomic<int> done{0};
        const bilsh::Watch watch([] { return true; });
        try {
            bilsh::parallel_for(100'000, n_jobs, [&](std::size_t, int) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                ++done;
            });
        } catch (const bilsh::Interrupted&) { interrupted = true; }
        check(interrupted && done < 100'000, "an interrupted call ends early");
    }
    bool thrown = false;
    try {
        bilsh::parallel_for(50, 3, [](std::size_t i, int) {
            if (i == 20) throw std::runtime_error("twenty");
        });
    } catch (const std::runtime_error&) { thrown = true; }
    check(thrown, "an exception of a task is rethrown");
}

// Records of a log come back as they were; no changed byte gives others.
void records(std::size_t n) {
    const std::string what = "records of a log, " + std::to_string(n) + " bytes";
    Numbers numbers;
    const Bytes first = numbers.bytes(n), second = numbers.bytes(n / 2);
    Bytes log(16);
    for (const Bytes& record : {first, second}) {
        const Bytes packed = bilsh::pack_record(record.data(), record.size(), log.size(), 7);
        log.insert(log.end(), packed.begin(), packed.end());
    }
    Bytes both = first;
    both.insert(both.end(), second.begin(), second.end());
    const auto read = [&](std::size_t size) { return bilsh::unpack_records(log.data(), size, 16, 3, 7, 5000); };
    const bilsh::LogRecords whole = read(log.size());
    check(whole.plain == both && whole.starts.size() == 3 && whole.end == log.size(), what);
    int wrong = 0;
    for (std::size_t i = 16; i < log.size(); ++i)
        for (const std::uint8_t value : {0, 0x7f, 0x80, 0x81, 0xff}) {
            const std::uint8_t before = log[i];
            log[i] = value;
            try {
                const bilsh::LogRecords found = read(log.size());
                wrong += value != before && (value != 0 || found.starts.size() == whole.starts.size());
            } catch (const std::invalid_argument&) { wrong += value == before; }
            log[i] = before;
        }
    for (std::size_t size = 16; size < log.size(); ++size) try {
            wrong += size >= whole.end || read(size).starts.size() > 2;
        } catch (const std::invalid_argument&) {}
    check(wrong == 0, what + ", damaged");
}

}  // namespace

int main() {
    bilsh::set_least_share(0);
    std::string names;
    for (const bilsh::Level level : bilsh::available_levels()) {
        bilsh::force_level(bilsh::kernels(level).name);
        names += std::string(names.empty() ? "" : ", ") + bilsh::kernels().name;
        for (const std::size_t n_bytes : {1, 7, 16, 31, 32, 33, 64, 65, 100, 128, 130, 200, 512, 600, 1024, 1100, 2048})
            for (const std::size_t n_queries : {1, 3, 9}) {
                search(70, n_bytes, n_queries, {}, 1);
                search(n_bytes < 300 ? 1500 : 200, n_bytes, n_queries, {n_bytes / 3}, 3);
            }
        search(0, 5, 2, {}, 1);
        search(40, 8400, 9, {}, 1);  // longer than counters of 16 bits hold
        search(1100, 40, 140, {0, 16}, 2);
        for (const std::size_t n_bytes : {1, 8, 33, 64, 130, 513, 1100})
            for (const std::size_t n_queries : {1, 4, 6, 11}) slices(600, n_bytes, n_queries, {n_bytes / 3});
        slices(40, 16, 1000, {});
        digits();
        real_weights();
        scores(300, 203, {5}, 1, 0xa2f946ad491e8d9d);
        scores(2600, 1000, {40}, 3, 0xe8bd3324393b04a1);
        scores(2100, 4500, {}, 1, 0x612d91d0db534816);
        encoders(1);
        encoders(3);
        learned(1);
        learned(3);
    }
    threads();
    for (const std::size_t n : {0, 1, 6, 7, 50, 333}) records(n);
    std::printf("%s: %s\n", names.c_str(), failures == 0 ? "all as expected" : "FAILED");
    return failures == 0 ? 0 : 1;
}
