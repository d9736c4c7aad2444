// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace examples {

/// A text as numbers: each different byte of it is one symbol.
struct Text {
  std::string alphabet;               ///< the byte of each symbol, in order of its value
  std::vector<std::uint8_t> symbols;  ///< the text, one index into `alphabet` per byte
  static cxxrun::Result<Text> load(const std::string& path);
};

/// Guesses the next character from the last kContext ones: embedding, one hidden layer, softmax. Trained by
/// Adam. Plain loops, one thread, the same result on every run.
class CharModel {
 public:
  static constexpr std::size_t kContext = 5;     ///< characters that it looks at
  static constexpr std::size_t kEmbedding = 10;  ///< numbers per character
  static constexpr std::size_t kHidden = 64;

  /// Random weights, the same for equal arguments.
  CharModel(std::size_t alphabet_size, std::uint64_t seed);

  /// Adds the gradient for guessing text[i] from what stands before it, for each i of `positions` (all >=
  /// kContext). Returns the sum of the losses (nats).
  double add_gradient(const Text& text, std::span<const std::uint32_t> positions);

  /// Sums of add_gradient since the last step; the caller averages over ranks and samples.
  [[nodiscard]] std::span<float> gradient() { return gradient_; }
  /// One step of Adam; clears the gradient.
  void step(float learning_rate);

  /// Everything that a training run continues from: weights, both moments of Adam and the number of steps.
  [[nodiscard]] std::string save() const;
  /// Takes over what save() gave. False when it belongs to a model of other sizes.
  [[nodiscard]] bool load(std::string_view state);

  /// A fingerprint of the weights' bits.
  [[nodiscard]] std::uint64_t checksum() const;
  [[nodiscard]] std::size_t weights_count() const { return weights_.size(); }
  /// Writes `count` characters on from `start`, by the model's own chances.
  [[nodiscard]] std::string write(const Text& text, std::string_view start, std::size_t count,
                                  std::uint64_t seed) const;

 private:
  struct Forward {
    std::array<float, kContext * kEmbedding> input;
    std::array<float, kHidden> hidden;
    std::array<float, 256> chance;  // the first alphabet_size_ are used
  };
  void forward(const std::uint8_t* next, Forward& f) const;
  void backward(const std::uint8_t* next, Forward& f);

  // One block of numbers; the parts lie one behind the other.
  [[nodiscard]] std::size_t embedding_at() const { return 0; }
  [[nodiscard]] std::size_t layer1_at() const { return alphabet_size_ * kEmbedding; }
  [[nodiscard]] std::size_t bias1_at() const { return layer1_at() + kContext * kEmbedding * kHidden; }
  [[nodiscard]] std::size_t layer2_at() const { return bias1_at() + kHidden; }
  [[nodiscard]] std::size_t bias2_at() const { return layer2_at() + kHidden * alphabet_size_; }
  [[nodiscard]] std::size_t size() const { return bias2_at() + alphabet_size_; }

  std::size_t alphabet_size_;
  std::vector<float> weights_, gradient_, mean_, variance_;
  std::uint64_t steps_ = 0;
};

/// Reproducible chance on every machine (SplitMix64).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  ///< 0 <= x < 1
  std::size_t below(std::size_t limit) {
    return static_cast<std::size_t>(unit() * static_cast<double>(limit));
  }

 private:
  std::uint64_t state_;
};

}  // namespace examples
