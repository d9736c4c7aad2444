// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <limits>

#include "tests/support/store_driver.hpp"

using namespace cxxrun;
using namespace cxxrun::store;
using namespace cxxrun::store::test;

namespace {

constexpr int A = 0, B = 1, C = 2, D = 3;

/// One client speaks; then this and nothing else must have come for it since it last spoke.
struct Step {
  int client;
  std::string sends;
  std::string gets;
  bool closed = false;
};
struct Case {
  const char* id;
  const char* name;
  std::vector<Step> steps;
};

constexpr std::int64_t kBiggest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kSmallest = std::numeric_limits<std::int64_t>::min();

std::string all_bytes() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

std::string longest_key() { return std::string(limits::kStoreKeyBytesMax, 'k'); }
std::string longest_value() { return std::string(limits::kStoreValueBytesMax, 'v'); }

// Each row's clients have shaken hands already.
const std::vector<Case>& handshake_cases() {
  static const std::vector<Case> cases{
      {"H3",
       "a ping is echoed, whatever its number",
       {{A, ping(0xFFFFFFFF) + ping(0), u32(0xFFFFFFFF) + u32(0)}}},
      {"H4", "a client that never pings is served", {{A, add("n", 1), i64(1)}}},
      {"H7", "a second handshake closes", {{A, validate(), "", true}, {B, ping(1), u32(1)}}},
      {"H11a",
       "the first unknown opcode closes, others live on",
       {{A, "\x13", "", true}, {B, ping(1), u32(1)}}},
      {"H11b", "the last unknown opcode closes", {{A, "\xff", "", true}, {B, ping(1), u32(1)}}},
      {"H13a", "an absurd key length closes", {{A, hex("01 ffffffffffffffff"), "", true}}},
      {"H13b", "one key too many closes", {{A, hex("06 0100020000000000"), "", true}}},
      {"H13c",
       "a value one byte too long closes before its bytes come",
       {{A, op(Op::Set) + str("k") + i64(limits::kStoreValueBytesMax + 1), "", true}}},
      {"H13d",
       "a key one byte too long closes",
       {{A, op(Op::Get) + i64(limits::kStoreKeyBytesMax + 1), "", true}}},
      {"H13e", "a negative count closes", {{A, op(Op::MultiSet) + i64(-1), "", true}}},
      {"H14a", "the longest key", {{A, set(longest_key(), "v") + get(longest_key()), str("v")}}},
      {"H14b", "the longest value", {{A, set("k", longest_value()) + get("k"), str(longest_value())}}},
      {"H14c",
       "the most keys in one request",
       {{A, check(Names(limits::kStoreKeysPerRequestMax, "k")), kIsNotReady}}},
  };
  return cases;
}

const std::vector<Case>& basic_cases() {
  static const std::vector<Case> cases{
      {"B2",
       "set, add, get, count, check",
       {{A, set("key0", "value0") + set("key1", "value1") + set("key2", "value2"), ""},
        {A, add("key3", 1) + add("key3", 20), i64(1) + i64(21)},
        {A, num_keys() + get("key3") + get("key0"), i64(4) + str("21") + str("value0")},
        {A, check({"key3"}) + check({"unknown"}), kIsReady + kIsNotReady}}},
      {"B3",
       "delete restores the count",
       {{A, set("a", "1") + set("b", "2") + num_keys(), i64(2)},
        {A, delete_key("b") + num_keys(), i64(1) + i64(1)}}},
      {"B5", "a missing key cannot be deleted", {{A, delete_key("no"), i64(0)}}},
      {"B6",
       "negative and zero deltas",
       {{A, add("n", -5) + add("n", 0) + get("n"), i64(-5) + i64(-5) + str("-5")}}},
      {"B6b",
       "adding 0 creates the key",
       {{A, add("n", 0) + get("n") + num_keys(), i64(0) + str("0") + i64(1)}}},
      {"B7",
       "numbers as clients write them",
       {{A, set("a", "12abc") + add("a", 1), i64(13)},
        {A, set("b", "  7") + add("b", 1), i64(8)},
        {A, set("c", "+7") + add("c", 1), i64(8)},
        {A, set("d", "0x10") + add("d", 1), i64(1)},
        {A, set("e", "\t\n -3 ") + add("e", 1), i64(-2)}}},
      {"B8",
       "adding to a text closes and changes nothing",
       {{A, set("k", "abc") + add("k", 1), "", true}, {B, get("k"), str("abc")}}},
      {"B9a",
       "adding to an empty value closes",
       {{A, set("k", "") + add("k", 1), "", true}, {B, get("k"), str("")}}},
      {"B9b", "adding to 20 digits closes", {{A, set("k", "99999999999999999999") + add("k", 1), "", true}}},
      {"B9c", "two signs are no number", {{A, set("k", "+-7") + add("k", 1), "", true}}},
      {"B10",
       "a sum wraps around",
       {{A, add("n", kBiggest) + add("n", 1), i64(kBiggest) + i64(kSmallest)},
        {A, get("n"), str("-9223372036854775808")}}},
      {"B11", "a missing key reads as empty", {{A, get("no"), str("")}}},
      {"B12", "an empty value exists", {{A, set("k", "") + get("k") + check({"k"}), str("") + kIsReady}}},
      {"B13", "an empty key is a key", {{A, set("", "q") + get(""), str("q")}}},
      {"B14",
       "all bytes in key and value",
       {{A, set(all_bytes(), all_bytes()) + get(all_bytes()), str(all_bytes())}}},
      {"B15",
       "the last value stays",
       {{A, set("k", "long value, the first") + set("k", "2") + get("k"), str("2")}}},
      {"B16",
       "append creates and extends",
       {{A, append("k", "po") + append("k", "tato") + get("k"), str("potato")}}},
      {"B17",
       "several at once",
       {{A, multi_set({{"a", "po"}, {"b", "tato"}}), ""},
        {A, multi_get({"b", "a"}), str("tato") + str("po")}}},
      {"B17b",
       "of equal keys the last wins",
       {{A, multi_set({{"a", "1"}, {"a", "2"}}) + get("a"), str("2")}}},
      {"B18",
       "repeats, missing ones, and none at all",
       {{A, set("a", "x") + multi_get({"a", "a", "no"}) + multi_get({}), str("x") + str("x") + str("")}}},
      {"B19", "no pairs", {{A, multi_set({}) + ping(9), u32(9)}}},
      {"B24",
       "list_keys",
       {{A, set("one", "1") + list_keys(), i64(1) + str("one")},
        {A, push("queue", "x") + list_keys(), i64(1) + str("one")}}},
      {"B25",
       "what is not answered is not answered",
       {{A, set("a", "1") + append("a", "2") + multi_set({{"b", "3"}}) + push("q", "4") + ping(5), u32(5)}}},
      {"E11", "a fresh store knows no old signal", {{A, check({"/exception_dump"}), kIsNotReady}}},
  };
  return cases;
}

const std::vector<Case>& compare_set_cases() {
  static const std::vector<Case> cases{
      {"C1",
       "missing, something expected",
       {{A, compare_set("k", "wrong", "new") + check({"k"}), str("wrong") + kIsNotReady}}},
      {"C2",
       "different",
       {{A, set("k", "v") + compare_set("k", "wrong", "new") + get("k"), str("v") + str("v")}}},
      {"C3",
       "equal",
       {{A, set("k", "v") + compare_set("k", "v", "new") + get("k"), str("new") + str("new")}}},
      {"C4", "created", {{A, compare_set("k", "", "new") + get("k"), str("new") + str("new")}}},
      {"C5", "there, nothing expected", {{A, set("k", "v") + compare_set("k", "", "x"), str("v")}}},
      {"C6",
       "empty equals empty",
       {{A, set("k", "") + compare_set("k", "", "x") + get("k"), str("x") + str("x")}}},
      {"C7",
       "a created key wakes",
       {{B, wait({"k"}), ""}, {A, compare_set("k", "", "v"), str("v")}, {B, "", kStop}}},
      {"C8",
       "nothing written wakes nobody",
       {{B, wait({"k"}), ""},
        {A, compare_set("k", "no", "x"), str("no")},
        {B, "", ""},
        {B, cancel(), kCancelReply}}},
      {"C9",
       "of many only one takes a lock",
       {{A, compare_set("lock", "", "a"), str("a")},
        {B, compare_set("lock", "", "b"), str("a")},
        {C, compare_set("lock", "", "c"), str("a")}}},
  };
  return cases;
}

const std::vector<Case>& wait_cases() {
  static const std::vector<Case> cases{
      {"W1",
       "a cancelled wait leaves the connection in step",
       {{A, wait({"bad_key"}), ""}, {A, cancel(), kCancelReply}, {A, add("n", 5), i64(5)}}},
      {"W2",
       "what is there is not waited for",
       {{A, add("good_key", 1) + wait({"good_key"}), i64(1) + kStop}}},
      {"W3",
       "some are there, the rest comes one by one",
       {{A, set("1", "x"), ""},
        {B, wait({"1", "2", "3"}), ""},
        {A, set("2", "x"), ""},
        {B, "", ""},
        {C, set("3", "x"), ""},
        {B, "", kStop}}},
      {"W4",
       "the key may come after the time-out",
       {{A, wait({"k"}) + cancel(), kCancelReply},
        {B, set("k", "x"), ""},
        {A, wait({"k"}) + get("k"), kStop + str("x")}}},
      {"W5", "a cancel without a wait is answered", {{A, cancel(), kCancelReply}}},
      {"W6",
       "a cancel that comes too late",
       {{A, set("k", "v") + wait({"k"}) + cancel(), kStop + kCancelReply}}},
      {"W7",
       "nothing comes after a cancel",
       {{A, wait({"k"}), ""}, {A, cancel(), kCancelReply}, {B, set("k", "v"), ""}, {A, "", ""}}},
      {"W8", "a wait for nothing", {{A, wait({}), kStop}}},
      {"W9", "a key named twice", {{A, wait({"d", "d"}), ""}, {B, set("d", "v"), ""}, {A, "", kStop}}},
      {"W10",
       "what was seen stays seen",
       {{A, wait({"a", "b"}), ""},
        {B, set("a", "1") + delete_key("a") + set("b", "1"), i64(1)},
        {A, "", kStop}}},
      {"W11",
       "one answer for one wait",
       {{A, wait({"p"}), ""},
        {B, set("p", "1") + set("p", "2"), ""},
        {A, "", kStop},
        {B, set("p", "3"), ""},
        {A, "", ""}}},
      {"W12a", "add wakes", {{A, wait({"k"}), ""}, {B, add("k", 0), i64(0)}, {A, "", kStop}}},
      {"W12b", "append wakes", {{A, wait({"k"}), ""}, {B, append("k", "x"), ""}, {A, "", kStop}}},
      {"W12c",
       "multi_set wakes",
       {{A, wait({"k", "l"}), ""}, {B, multi_set({{"k", "1"}, {"l", "2"}}), ""}, {A, "", kStop}}},
      {"W12d",
       "an own write in the same breath wakes in order",
       {{A, wait({"k"}) + ping(1) + set("k", "v") + ping(2), u32(1) + kStop + u32(2)}}},
      {"W18",
       "a released connection waits again",
       {{A, wait({"a"}), ""},
        {B, set("a", "1"), ""},
        {A, "", kStop},
        {A, wait({"b"}), ""},
        {B, set("a", "2"), ""},
        {A, "", ""},
        {B, set("b", "1"), ""},
        {A, "", kStop}}},
      {"W19",
       "a second wait before the first has ended closes",
       {{A, wait({"a"}), ""}, {A, wait({"b"}), "", true}, {B, set("a", "1"), ""}}},
      {"R1", "a barrier of two", {{A, barrier("b", 2), ""}, {B, barrier("b", 2), kStop}, {A, "", kStop}}},
      {"R1b",
       "a barrier of three",
       {{A, barrier("b", 3), ""},
        {B, barrier("b", 3), ""},
        {A, "", ""},
        {C, barrier("b", 3), kStop},
        {A, "", kStop},
        {B, "", kStop}}},
      {"R2",
       "arrivals can be seen",
       {{A, barrier("b", 2), ""}, {B, check({"b"}) + get("b"), kIsReady + str("1")}}},
      {"R3",
       "a barrier that is used again is open",
       {{A, barrier("b", 2), ""},
        {B, barrier("b", 2), kStop},
        {A, "", kStop},
        {C, barrier("b", 2) + get("b"), kStop + str("3")}}},
      {"R4",
       "who gives up stays counted",
       {{A, barrier("b", 2), ""},
        {A, cancel(), kCancelReply},
        {B, get("b"), str("1")},
        {C, barrier("b", 2), kStop},
        {A, "", ""}}},
      {"R5",
       "a barrier on a text closes",
       {{A, set("b", "x") + barrier("b", 2), "", true}, {B, get("b"), str("x")}}},
      {"R6",
       "a barrier of none or one is open",
       {{A, barrier("b", 1) + barrier("c", 0) + barrier("d", -1), kStop + kStop + kStop}}},
  };
  return cases;
}

const std::vector<Case>& queue_cases() {
  static const std::vector<Case> cases{
      {"Q1",
       "first in, first out",
       {{A, check({"q"}) + queue_len("q"), kIsNotReady + i64(0)},
        {A, push("q", "1") + push("q", "2"), ""},
        {A, check({"q"}) + queue_len("q") + wait({"q"}), kIsReady + i64(2) + kStop},
        {A, pop("q") + pop("q"), i64(2) + str("1") + i64(1) + str("2")},
        {A, queue_len("q") + check({"q"}), i64(0) + kIsNotReady}}},
      {"Q2", "an empty queue says so", {{A, pop("q"), i64(0)}}},
      {"Q3",
       "both ways",
       {{B, wait({"a"}), ""},
        {A, push("a", "ping"), ""},
        {B, pop("a"), kStop + i64(1) + str("ping")},
        {A, wait({"b"}), ""},
        {B, push("b", "pong"), ""},
        {A, pop("b"), kStop + i64(1) + str("pong")}}},
      {"Q4",
       "a time-out leaves the connection in step",
       {{A, wait({"q"}), ""}, {A, cancel(), kCancelReply}, {A, queue_len("q"), i64(0)}}},
      {"Q5",
       "one element wakes one client, the oldest",
       {{A, wait({"q"}), ""},
        {B, wait({"q"}), ""},
        {C, wait({"q"}), ""},
        {D, push("q", "x"), ""},
        {B, "", ""},
        {C, "", ""},
        {A, "", kStop},
        {D, push("q", "y"), ""},
        {C, "", ""},
        {B, "", kStop}}},
      {"Q6",
       "an answered wait is over",
       {{A, wait({"q"}), ""},
        {B, push("q", "x"), ""},
        {A, "", kStop},
        {A, wait({"k"}), ""},
        {B, push("q", "y"), ""},
        {A, "", ""},
        {B, set("k", "v"), ""},
        {A, "", kStop}}},
      {"Q7",
       "queues and keys are apart",
       {{A, set("n", "v") + push("n", "x") + get("n"), str("v")},
        {A, num_keys() + pop("n") + delete_key("n"), i64(1) + i64(1) + str("x") + i64(1)},
        {A, push("n", "y") + delete_key("n") + num_keys() + queue_len("n"), i64(0) + i64(0) + i64(1)}}},
      {"Q8",
       "a queue and a key",
       {{A, push("q", "x"), ""}, {B, wait({"q", "k"}), ""}, {A, set("k", "v"), ""}, {B, "", kStop}}},
      {"Q9",
       "who waits for more does not keep an element from the next",
       {{A, wait({"q", "k"}), ""},
        {B, wait({"q"}), ""},
        {C, push("q", "x"), ""},
        {B, "", kStop},
        {A, "", ""},
        {C, set("k", "v"), ""},
        {A, "", kStop}}},
  };
  return cases;
}

void run(Driver& driver, const Case& row) {
  std::map<int, bool> met;
  for (std::size_t i = 0; i < row.steps.size(); ++i) {
    const Step& step = row.steps[i];
    const std::string hello = std::exchange(met[step.client], true) ? "" : validate();
    const std::string got = driver.talk(step.client, hello + step.sends);
    INFO(row.id << ": " << row.name << ", step " << i);
    // A connection that is shut may lose its last bytes: no check of those.
    if (!step.closed) CHECK((got == step.gets));
    CHECK(driver.closed(step.client) == step.closed);
  }
}

template <class DriverType>
void run_all(const std::vector<Case>& cases) {
  for (const Case& row : cases) {
    DriverType driver;
    run(driver, row);
  }
}

}  // namespace

TEST_CASE("conformance of the core: handshake") { run_all<PureDriver>(handshake_cases()); }
TEST_CASE("conformance of the core: basic operations") { run_all<PureDriver>(basic_cases()); }
TEST_CASE("conformance of the core: compare_set") { run_all<PureDriver>(compare_set_cases()); }
TEST_CASE("conformance of the core: waits and barriers") { run_all<PureDriver>(wait_cases()); }
TEST_CASE("conformance of the core: queues") { run_all<PureDriver>(queue_cases()); }

TEST_CASE("conformance over sockets: handshake") { run_all<SocketDriver>(handshake_cases()); }
TEST_CASE("conformance over sockets: basic operations") { run_all<SocketDriver>(basic_cases()); }
TEST_CASE("conformance over sockets: compare_set") { run_all<SocketDriver>(compare_set_cases()); }
TEST_CASE("conformance over sockets: waits and barriers") { run_all<SocketDriver>(wait_cases()); }
TEST_CASE("conformance over sockets: queues") { run_all<SocketDriver>(queue_cases()); }
