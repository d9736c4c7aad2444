// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target on damaged copies of its seeds, without libFuzzer and thus without a memory of what was
// new.
//   TARGET [--iterations N] [--seconds S] [--seed N]     ends after N inputs or S seconds, whichever comes
//   first TARGET --write-seeds FOLDER                          for libFuzzer, as its corpus
// Prints its seed before it begins: the same seed gives the same inputs.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/target.hpp"

namespace {

constexpr std::size_t kInputBytesMax = std::size_t{64} << 10;

class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, std::uint64_t seed) : seeds_(std::move(seeds)), random_(seed) {}

  /// The seeds themselves first, then copies with 1 to 8 faults.
  std::string next() {
    if (given_ < seeds_.size()) return seeds_[given_++];
    std::string input = seeds_[below(seeds_.size())];
    for (std::size_t faults = 1 + below(8); faults > 0; --faults) damage(input);
    if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
    return input;
  }

 private:
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  void damage(std::string& input) {
    const std::size_t at = below(input.size() + 1);
    const std::size_t count = std::min(below(17), input.size() - at);
    switch (below(8)) {
      case 0: input.insert(at, 1 + below(4), static_cast<char>(below(256))); return;
      case 1: input.erase(at, count); return;
      case 2: input.resize(at); return;
      case 3: input.insert(at, input.substr(at, count)); return;  // twice
      case 4: {                                                   // many times
        const std::string piece = input.substr(at, std::max<std::size_t>(1, count));
        for (std::size_t n = below(300); n > 0; --n) input.insert(at, piece);
        return;
      }
      case 5: {  // the head of this and the tail of another
        const std::string& other = seeds_[below(seeds_.size())];
        input.resize(at);
        input.append(other, below(other.size() + 1), std::string::npos);
        return;
      }
      case 6: return overwrite(input, at);
      default:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
    }
  }

  /// A number that parsers like to get wrong, in 1 to 8 bytes.
  void overwrite(std::string& input, std::size_t at) {
    constexpr std::array<std::uint64_t, 9> kNumbers{
        0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, 0xffffffffffffffff};
    const std::uint64_t number = kNumbers[below(kNumbers.size())];
    char bytes[sizeof number];
    std::memcpy(bytes, &number, sizeof number);
    const std::size_t width = std::size_t{1} << below(4);
    input.replace(at, std::min(width, input.size() - at), bytes, width);
  }

  std::vector<std::string> seeds_;
  std::size_t given_ = 0;
  std::mt19937_64 random_;
};

int write_seeds(const std::string& folder) {
  std::size_t number = 0;
  for (const std::string& seed : cxxrun::fuzz::seeds()) {
    std::ofstream file(folder + "/seed" + std::to_string(number++), std::ios::binary);
    file << seed;
    if (!file.flush()) {
      std::fprintf(stderr, "cannot write to %s\n", folder.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t iterations = ~std::uint64_t{0}, seconds = 10, seed = std::random_device{}();
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--write-seeds") return write_seeds(value);
    std::uint64_t* number = nullptr;
    if (name == "--iterations") number = &iterations;
    if (name == "--seconds") number = &seconds;
    if (name == "--seed") number = &seed;
    if (number == nullptr || *value == '\0') {
      std::fprintf(stderr, "usage: %s [--iterations N] [--seconds S] [--seed N] | --write-seeds FOLDER\n",
                   argv[0]);
      return 2;
    }
    *number = std::strtoull(value, nullptr, 10);
  }
  std::printf("--seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);  // a crash must not take it along
  Mutator mutator(cxxrun::fuzz::seeds(), seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::uint64_t done = 0;
  for (; done < iterations && std::chrono::steady_clock::now() < end; ++done) {
    const std::string input = mutator.next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(done));
  return 0;
}
