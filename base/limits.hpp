// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

/// Every maximum, in one place. A unit stands in the name or beside the number.
namespace cxxrun::limits {

using namespace std::chrono_literals;

// --- sizes of a job ---
inline constexpr int kNodesMax = 65'536;
inline constexpr int kWorkersPerNodeMax = 4'096;
inline constexpr int kCpusMax = 8'192;  ///< of one node: as many as a Linux kernel can be built for

// --- agents' frames (rendezvous wire) ---
inline constexpr std::size_t kFrameBytesMax = 1u << 20;   ///< one JSON frame
inline constexpr std::size_t kHelloBytesMax = 64u << 10;  ///< frames before a hello was accepted
inline constexpr std::size_t kSendQueueBytesMax = 8u
                                                  << 20;  ///< waiting for one slow peer, then it is cut off
inline constexpr std::size_t kFenceBlobBytesMax = 64u << 10;  ///< one rank's part of a fence
inline constexpr std::size_t kFenceBytesMax =
    3u << 20;  ///< all parts of one fence, and all unfinished ones of a round
inline constexpr std::size_t kFenceNameBytesMax = 256;
inline constexpr std::size_t kRunIdBytesMax = 256;
inline constexpr auto kHelloTimeout = 5s;                         ///< from accept to a complete hello
inline constexpr std::size_t kHandshakingConnectionsMax = 1'024;  ///< connections that said no hello yet

// --- HTTP on the control port ---
inline constexpr std::size_t kHttpHeadBytesMax = 8u << 10;

// --- worker store (TCPStore protocol) ---
inline constexpr std::size_t kStoreKeyBytesMax = 8u << 10;
inline constexpr std::size_t kStoreValueBytesMax = 8u << 20;
inline constexpr std::size_t kStoreKeysPerRequestMax = 128u << 10;
inline constexpr std::size_t kStoreBytesMax = 1u << 30;  ///< all values and keys together

// --- failure reports ---
inline constexpr std::size_t kLastWordsLinesMax = 64;
inline constexpr std::size_t kLastWordsBytesMax = 16u << 10;
inline constexpr std::size_t kErrorFileBytesMax = 1u << 20;
inline constexpr auto kFailureAgeMax = 30s;
inline constexpr std::size_t kTerminationLogBytesMax = 4'096;  ///< what a kubelet keeps of it

// --- streams ---
inline constexpr std::size_t kLineBytesMax = 64u << 10;  ///< a longer line is cut into pieces of this size
inline constexpr std::size_t kJsonLineBytesMax = 16u << 10;  ///< one object of --log-format json
inline constexpr auto kDrainTimeout = 1s;                    ///< from a worker's end to giving up its pipes

}  // namespace cxxrun::limits
