// SPDX-License-Identifier: Apache-2.0
#include "examples/char_model.hpp"

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

namespace examples {
namespace {

/// Products alone: the library's pow may differ in the last bit from one processor to the next, and then so
/// would ranks.
float power(float base, std::uint64_t exponent) {
  float result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if ((exponent & 1) != 0) result *= base;
  return result;
}

}  // namespace

std::uint64_t Dice::next() {
  std::uint64_t x = state_ += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

cxxrun::Result<Text> Text::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return cxxrun::errno_error(errno, "text " + path);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (bytes.size() < 1'000) return cxxrun::plain_error("text " + path + ": shorter than 1000 bytes");
  std::bitset<256> seen;
  for (const char c : bytes) seen.set(static_cast<unsigned char>(c));
  Text text;
  std::array<std::uint8_t, 256> symbol{};
  for (std::size_t c = 0; c < seen.size(); ++c) {
    if (!seen.test(c)) continue;
    symbol[c] = static_cast<std::uint8_t>(text.alphabet.size());
    text.alphabet.push_back(static_cast<char>(c));
  }
  text.symbols.reserve(bytes.size());
  for (const char c : bytes) text.symbols.push_back(symbol[static_cast<unsigned char>(c)]);
  return text;
}

CharModel::CharModel(std::size_t alphabet_size, std::uint64_t seed) : alphabet_size_(alphabet_size) {
  weights_.resize(size());
  gradient_.resize(size());
  mean_.resize(size());
  variance_.resize(size());
  Dice dice(seed);
  const auto fill = [&](std::size_t from, std::size_t to, double scale) {
    for (std::size_t i = from; i < to; ++i) weights_[i] = static_cast<float>((dice.unit() * 2 - 1) * scale);
  };
  fill(embedding_at(), layer1_at(), 1.0);
  fill(layer1_at(), bias1_at(), 1.0 / std::sqrt(static_cast<double>(kContext * kEmbedding)));
  fill(layer2_at(), bias2_at(), 1.0 / std::sqrt(static_cast<double>(kHidden)));
}

void CharModel::forward(const std::uint8_t* next, Forward& f) const {
  for (std::size_t c = 0; c < kContext; ++c) {
    const float* embedding = &weights_[embedding_at() + next[c - kContext] * kEmbedding];
    std::copy_n(embedding, kEmbedding, &f.input[c * kEmbedding]);
  }
  std::copy_n(&weights_[bias1_at()], kHidden, f.hidden.data());
  for (std::size_t i = 0; i < f.input.size(); ++i) {
    const float* row = &weights_[layer1_at() + i * kHidden];
    for (std::size_t h = 0; h < kHidden; ++h) f.hidden[h] += f.input[i] * row[h];
  }
  for (float& h : f.hidden) h = std::tanh(h);
  std::copy_n(&weights_[bias2_at()], alphabet_size_, f.chance.data());
  for (std::size_t h = 0; h < kHidden; ++h) {
    const float* row = &weights_[layer2_at() + h * alphabet_size_];
    for (std::size_t a = 0; a < alphabet_size_; ++a) f.chance[a] += f.hidden[h] * row[a];
  }
  const float highest =
      *std::max_element(f.chance.begin(), f.chance.begin() + static_cast<long>(alphabet_size_));
  float total = 0;
  for (std::size_t a = 0; a < alphabet_size_; ++a) total += f.chance[a] = std::exp(f.chance[a] - highest);
  for (std::size_t a = 0; a < alphabet_size_; ++a) f.chance[a] /= total;
}

void CharModel::backward(const std::uint8_t* next, Forward& f) {
  f.chance[*next] -= 1;  // now the gradient of the loss by the scores
  std::array<float, kHidden> by_hidden{};
  for (std::size_t h = 0; h < kHidden; ++h) {
    const float* row = &weights_[layer2_at() + h * alphabet_size_];
    float* by_row = &gradient_[layer2_at() + h * alphabet_size_];
    float sum = 0;
    for (std::size_t a = 0; a < alphabet_size_; ++a) {
      by_row[a] += f.hidden[h] * f.chance[a];
      sum += row[a] * f.chance[a];
    }
    by_hidden[h] = sum * (1 - f.hidden[h] * f.hidden[h]);
  }
  for (std::size_t a = 0; a < alphabet_size_; ++a) gradient_[bias2_at() + a] += f.chance[a];
  for (std::size_t h = 0; h < kHidden; ++h) gradient_[bias1_at() + h] += by_hidden[h];
  for (std::size_t i = 0; i < f.input.size(); ++i) {
    const float* row = &weights_[layer1_at() + i * kHidden];
    float* by_row = &gradient_[layer1_at() + i * kHidden];
    float sum = 0;
    for (std::size_t h = 0; h < kHidden; ++h) {
      by_row[h] += f.input[i] * by_hidden[h];
      sum += row[h] * by_hidden[h];
    }
    const std::size_t symbol = next[i / kEmbedding - kContext];
    gradient_[embedding_at() + symbol * kEmbedding + i % kEmbedding] += sum;
  }
}

double CharModel::add_gradient(const Text& text, std::span<const std::uint32_t> positions) {
  double loss = 0;
  Forward f;
  for (const std::uint32_t position : positions) {
    const std::uint8_t* next = &text.symbols[position];
    forward(next, f);
    loss -= std::log(std::max(f.chance[*next], 1e-20F));
    backward(next, f);
  }
  return loss;
}

void CharModel::step(float learning_rate) {
  constexpr float kKeepMean = 0.9F, kKeepVariance = 0.99F;
  ++steps_;
  const float mean_scale = 1 / (1 - power(kKeepMean, steps_));
  const float variance_scale = 1 / (1 - power(kKeepVariance, steps_));
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    mean_[i] = kKeepMean * mean_[i] + (1 - kKeepMean) * gradient_[i];
    variance_[i] = kKeepVariance * variance_[i] + (1 - kKeepVariance) * gradient_[i] * gradient_[i];
    weights_[i] -= learning_rate * mean_[i] * mean_scale / (std::sqrt(variance_[i] * variance_scale) + 1e-8F);
    gradient_[i] = 0;
  }
}

std::string CharModel::save() const {
  std::string state(sizeof steps_, '\0');
  std::memcpy(state.data(), &steps_, sizeof steps_);
  for (const std::vector<float>* part : {&weights_, &mean_, &variance_})
    state.append(reinterpret_cast<const char*>(part->data()), part->size() * sizeof(float));
  return state;
}

bool CharModel::load(std::string_view state) {
  const std::size_t bytes = size() * sizeof(float);
  if (state.size() != sizeof steps_ + 3 * bytes) return false;
  std::memcpy(&steps_, state.data(), sizeof steps_);
  state.remove_prefix(sizeof steps_);
  for (std::vector<float>* part : {&weights_, &mean_, &variance_}) {
    std::memcpy(part->data(), state.data(), bytes);
    state.remove_prefix(bytes);
  }
  return true;
}

std::uint64_t CharModel::checksum() const {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const float weight : weights_) {
    std::array<unsigned char, sizeof weight> bytes{};
    std::memcpy(bytes.data(), &weight, sizeof weight);
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  }
  return hash;
}

std::string CharModel::write(const Text& text, std::string_view start, std::size_t count,
                             std::uint64_t seed) const {
  Dice dice(seed);
  std::vector<std::uint8_t> symbols(kContext, 0);
  for (const char c : start) {
    const std::size_t symbol = text.alphabet.find(c);
    symbols.push_back(static_cast<std::uint8_t>(symbol == std::string::npos ? 0 : symbol));
  }
  std::string written(start);
  Forward f;
  for (std::size_t i = 0; i < count; ++i) {
    symbols.push_back(0);
    forward(&symbols.back(), f);
    double left = dice.unit();
    std::size_t chosen = 0;
    while (chosen + 1 < alphabet_size_ && (left -= static_cast<double>(f.chance[chosen])) > 0) ++chosen;
    symbols.back() = static_cast<std::uint8_t>(chosen);
    written.push_back(text.alphabet[chosen]);
  }
  return written;
}

}  // namespace examples
