// SPDX-License-Identifier: Apache-2.0
// Where the nodes meet: backends, endpoints, and what schedulers say.
#include "cli_support.hpp"

using namespace cxxrun;
using namespace cxxrun::cli;
using namespace cxxrun::cli::test;
using Catch::Contains;
using Catch::StartsWith;
using rendezvous::BackendKind;
using rendezvous::Endpoint;

TEST_CASE("backend: what is chosen where none is named") {
  const struct {
    const char* what;
    Words words;
    BackendKind kind;
    Endpoint endpoint;
  } rows[] = {
      {"one node", {}, BackendKind::Local, {}},
      {"one node, c10d", {"--rdzv-backend=c10d", "--rdzv-endpoint=h:1"}, BackendKind::Local, {}},
      {"one node, static without a port", {"--rdzv-backend=static"}, BackendKind::Local, {}},
      {"one node, address and rank only", {"--master-addr=h", "--node-rank=0"}, BackendKind::Local, {}},
      {"torchrun 2: one node with a port",
       {"--master-addr=localhost", "--master-port=4000", "--node-rank=0"},
       BackendKind::Static,
       {"localhost", 4000}},
      {"several nodes and an endpoint", {"--nnodes=2", "--rdzv-endpoint=h:1"}, BackendKind::C10d, {"h", 1}},
      {"elastic, one at least", {"--nnodes=1:2", "--rdzv-endpoint=h"}, BackendKind::C10d, {"h", 29400}},
      {"an endpoint beats the master",
       {"--nnodes=2", "--rdzv-endpoint=h", "--master-addr=x", "--node-rank=1"},
       BackendKind::C10d,
       {"h", 29400}},
      {"several nodes and a master",
       {"--nnodes=2", "--master-addr=h", "--node-rank=1"},
       BackendKind::Static,
       {"h", 29500}},
      {"static by name",
       {"--nnodes=2", "--rdzv-backend=static", "--rdzv-endpoint=h:7", "--node-rank=0"},
       BackendKind::Static,
       {"h", 7}},
  };
  for (const auto& row : rows) {
    INFO(row.what);
    const auto made = plan(row.words);
    CHECK(rdzv(made).backend == row.kind);
    CHECK(rdzv(made).endpoint == row.endpoint);
  }
}

TEST_CASE("backend: names that are refused") {
  CHECK(plan_error({"--rdzv-backend=etcd"}) == "--rdzv-backend etcd: not yet supported; write c10d");
  CHECK_THAT(plan_error({"--rdzv-backend=etcd-v2"}), Contains("write c10d"));
  for (const char* bad : {"", "bogus", "C10D"}) {
    CHECK(plan_error({"--rdzv-backend=" + std::string(bad)}) ==
          "--rdzv-backend " + quoted(bad) +
              ": must be c10d or static; handlers of Python packages cannot be loaded");
  }
}

TEST_CASE("torchrun 14, 60: standalone and one node meet nobody") {
  const auto made = plan({"--standalone", "--nproc-per-node=4", "--rdzv-endpoint=h:1", "--master-addr=h"},
                         {{"MASTER_ADDR", "gone"}, {"PET_MASTER_PORT", "29500"}, {"OMP_NUM_THREADS", "1"}});
  CHECK(rdzv(made).backend == BackendKind::Local);
  CHECK(rdzv(made).run_id == "random");
  CHECK(all_notes(made) ==
        "--rdzv-endpoint is not used: --standalone meets nobody\n--master-addr is not used: --standalone "
        "meets nobody\n");
  CHECK(plan_error({"--standalone", "--nnodes=2"}) ==
        "--standalone is for one node; with --nnodes 2 give --rdzv-endpoint instead");
  CHECK_THAT(plan_error({"--standalone"}, {{"PET_NNODES", "2"}}), Contains("with PET_NNODES=2 give"));
}

TEST_CASE("one node ignores a left-over MASTER_ADDR") {
  const auto made = plan({"--nnodes=1"},
                         {{"MASTER_ADDR", "gone"}, {"MASTER_PORT", "x"}, {"RANK", "3"}, {"WORLD_SIZE", "8"}});
  CHECK(rdzv(made).backend == BackendKind::Local);
  CHECK_FALSE(rdzv(made).node_rank);
  CHECK(made.notes.empty());
}

TEST_CASE("torchrun 66: endpoint texts") {
  const struct {
    const char* text;
    Endpoint endpoint;
  } good[] = {
      {"h", {"h", 29400}},
      {" h:5 ", {"h", 5}},
      {"h:65535", {"h", 65535}},
      {"[::1]", {"::1", 29400}},
      {"[::1]:5", {"::1", 5}},
      {"::1", {"::1", 29400}},
      {"fe80::1:2", {"fe80::1:2", 29400}},
      {"a_b.c-d:9", {"a_b.c-d", 9}},
      {"10.0.0.1:9", {"10.0.0.1", 9}},
      {"localhost", {"localhost", 29400}},
  };
  for (const auto& row : good) {
    INFO(row.text);
    CHECK(rdzv(plan({"--nnodes=2", "--rdzv-endpoint=" + std::string(row.text)})).endpoint == row.endpoint);
  }
  for (const char* bad : {"h:65536", "h:", "h:a", "h:-1", "h:+1", ":1", "a b:1", "http://h:1", "[::1", "[]",
                          "[]:5", "h:123456"}) {
    INFO(bad);
    for (const char* nodes : {"1", "2"}) {
      CHECK_THAT(plan_error({"--nnodes", nodes, "--rdzv-endpoint=" + std::string(bad)}),
                 StartsWith("--rdzv-endpoint " + quoted(bad) + ": "));
    }
  }
  CHECK_THAT(plan_error({"--nnodes=2", "--rdzv-endpoint=h:0"}), Contains("port 0 is for one node only"));
  CHECK_THAT(plan_error({"--nnodes=2"}, {{"PET_RDZV_ENDPOINT", "h:a"}}),
             StartsWith("PET_RDZV_ENDPOINT=h:a: "));
}

TEST_CASE("several nodes and nothing says where: three ways, each a line to copy") {
  const std::string message = plan_error({"--nnodes=3"});
  CHECK_THAT(message, StartsWith("--nnodes 3: where shall the nodes meet?"));
  CHECK_THAT(message,
             Contains("--rdzv-endpoint HOST:29400") && Contains("PET_RDZV_ENDPOINT=HOST:29400") &&
                 Contains("`rdzv-endpoint = HOST:29400` in /etc/cxxrun.conf or ~/.config/cxxrun.conf"));
  CHECK(std::count(message.begin(), message.end(), '\n') == 2);
  CHECK_THAT(plan_error({"--nnodes=3", "--rdzv-backend=static"}),
             StartsWith("--nnodes 3: where shall the nodes meet?"));
}

TEST_CASE("an empty endpoint says nothing: no node may take itself for the place to meet") {
  CHECK_THAT(plan_error({"--nnodes=3", "--rdzv-endpoint="}), Contains("where shall the nodes meet?"));
  CHECK_THAT(plan_error({"--nnodes=3"}, {{"PET_RDZV_ENDPOINT", " "}}),
             Contains("where shall the nodes meet?"));
  CHECK(rdzv(plan({"--nnodes=3", "--rdzv-endpoint="}, {{"MASTER_ADDR", "m"}})).endpoint ==
        Endpoint{"m", 29400});
  CHECK(rdzv(plan({"--rdzv-endpoint=", "--rdzv-backend=c10d"})).backend == BackendKind::Local);
}

// --- static ---

TEST_CASE("static: sentences") {
  CHECK_THAT(plan_error({"--nnodes=2", "--rdzv-backend=static", "--master-addr=h"}),
             StartsWith("static needs to know which node this is: --node-rank 0 on h"));
  CHECK(plan_error({"--nnodes=2", "--master-addr=h", "--node-rank=2"}) ==
        "--node-rank 2: with --nnodes 2 it is 0 to 1");
  CHECK(plan_error({"--nnodes=2", "--rdzv-backend=static", "--rdzv-endpoint=h", "--node-rank=0"}) ==
        "--rdzv-endpoint h: static needs the port too: HOST:PORT");
  for (const char* bad : {"x", "-1", "65536", "1.5"}) {
    CHECK(plan_error({"--nnodes=2", "--node-rank=" + std::string(bad)}) ==
          "--node-rank " + quoted(bad) + ": must be a whole number, 0 or more");
  }
  for (const char* bad : {"x", "0", "-5", "70000", ""}) {
    CHECK(plan_error({"--master-port=" + std::string(bad)}) ==
          "--master-port " + quoted(bad) + ": must be a port, 1 to 65535");
  }
  for (const char* bad : {"h:1", "a b", "[]"}) {
    CHECK(plan_error({"--nnodes=2", "--node-rank=0", "--master-addr=" + std::string(bad)}) ==
          "--master-addr " + quoted(bad) + ": must be a host name or address");
  }
}

TEST_CASE("static: addresses, sizes and notes") {
  const auto made = plan({"--nnodes=2:3", "--master-addr=[::1]", "--master-port=7", "--node-rank=2"});
  CHECK(rdzv(made).endpoint == Endpoint{"::1", 7});
  CHECK(rdzv(made).nnodes_min == 3);
  CHECK(rdzv(made).node_rank == std::optional(2));
  CHECK(all_notes(made) == "static has fixed ranks: --nnodes 2:3 counts as 3\n");
  const auto both = plan({"--nnodes=2", "--rdzv-backend=static", "--rdzv-endpoint=h:7", "--node-rank=0",
                          "--master-addr=x", "--master-port=9"});
  CHECK(rdzv(both).endpoint == Endpoint{"h", 7});
  CHECK(all_notes(both) ==
        "--master-addr is not used: --rdzv-endpoint says where\n--master-port is not used: --rdzv-endpoint "
        "says where\n");
  const auto here = plan({"--nnodes=2", "--master-port=7", "--node-rank=0"});
  CHECK(rdzv(here).endpoint == Endpoint{"127.0.0.1", 7});
  CHECK_THAT(all_notes(here), Contains("only agents of this machine can join"));
}

TEST_CASE("static takes the master of the surroundings where the command line names none") {
  const auto made = plan({"--nnodes=2", "--rdzv-backend=static", "--node-rank=1"},
                         {{"MASTER_ADDR", "m"}, {"MASTER_PORT", "23456"}});
  CHECK(rdzv(made).backend == BackendKind::Static);
  CHECK(rdzv(made).endpoint == Endpoint{"m", 23456});
  CHECK(all_notes(made) == "master m, from MASTER_ADDR\n");
  CHECK(rdzv(plan({"--nnodes=2", "--node-rank=1", "--master-port=9"},
                  {{"MASTER_ADDR", "m"}, {"MASTER_PORT", "23456"}}))
            .endpoint == Endpoint{"m", 9});
  CHECK_THAT(plan_error({"--nnodes=2", "--node-rank=1"}, {{"MASTER_ADDR", "a b"}}),
             StartsWith("MASTER_ADDR names 'a b': "));
}

// --- c10d with what the surroundings say ---

TEST_CASE("PyTorchJob v1: the manifest's line, master and workers") {
  const auto line = [](const std::string& address) {
    return Words{"--nnodes",       "3",    "--nproc_per_node", "1",
                 "--rdzv-backend", "c10d", "--rdzv-endpoint",  address + ":23456"};
  };
  const auto pod = [](const std::string& address, const std::string& rank) {
    return Variables{{"MASTER_ADDR", address}, {"MASTER_PORT", "23456"}, {"WORLD_SIZE", "3"}, {"RANK", rank}};
  };
  SECTION("service name everywhere") {
    for (const char* rank : {"0", "1", "2"}) {
      const auto made = plan(line("job-master-0"), pod("job-master-0", rank));
      CHECK(rdzv(made).backend == BackendKind::C10d);
      CHECK(rdzv(made).endpoint == Endpoint{"job-master-0", 23456});
      CHECK(rdzv(made).node_rank == std::optional(std::stoi(rank)));  // equal on all pods: equal hints
      CHECK_FALSE(rdzv(made).is_host);
      CHECK_FALSE(rdzv(made).other_hosts_known);
    }
  }
  SECTION("localhost in the master's pod: it serves") {
    const auto made = plan(line("localhost"), pod("localhost", "0"));
    CHECK(rdzv(made).is_host == std::optional(true));
    CHECK_FALSE(rdzv(made).other_hosts_known);
  }
  SECTION("localhost in another pod: it must not serve it") {
    const auto made = plan(line("localhost"), pod("localhost", "1"));
    CHECK_FALSE(rdzv(made).is_host);
    CHECK(rdzv(made).other_hosts_known);
  }
  SECTION("is_host of --rdzv-conf counts more") {
    Words words = line("localhost");
    words.emplace_back("--rdzv-conf=is_host=0");
    CHECK(rdzv(plan(words, pod("localhost", "0"))).is_host == std::optional(false));
  }
  SECTION("without an endpoint") {
    const auto made = plan({"--nnodes", "3"}, pod("job-master-0", "2"));
    CHECK(rdzv(made).backend == BackendKind::C10d);
    CHECK(rdzv(made).endpoint == Endpoint{"job-master-0", 23456});
    CHECK(all_notes(made) == "endpoint job-master-0:23456, from MASTER_ADDR\n");
    CHECK(rdzv(made).local_world_size == 1);  // RANK and WORLD_SIZE are no sizes
  }
}

TEST_CASE("MASTER_ADDR: IPv6, a port of its own, garbage") {
  const auto v6 = plan({"--nnodes=2"}, {{"MASTER_ADDR", "fd00::1"}, {"MASTER_PORT", "5"}});
  CHECK(rdzv(v6).endpoint == Endpoint{"fd00::1", 5});
  CHECK(all_notes(v6) == "endpoint [fd00::1]:5, from MASTER_ADDR\n");
  CHECK(rdzv(plan({"--nnodes=2"}, {{"MASTER_ADDR", "m:7"}})).endpoint == Endpoint{"m", 7});
  CHECK(rdzv(plan({"--nnodes=2"}, {{"MASTER_ADDR", "m"}})).endpoint == Endpoint{"m", 29400});
  CHECK_THAT(plan_error({"--nnodes=2"}, {{"MASTER_ADDR", "a b"}}), StartsWith("MASTER_ADDR names 'a b': "));
  CHECK_THAT(plan_error({"--nnodes=2"}, {{"MASTER_ADDR", "m"}, {"MASTER_PORT", "x"}}),
             StartsWith("MASTER_PORT=x is no port"));
  // An endpoint of one's own: what the surroundings have wrong does not matter.
  CHECK(rdzv(plan({"--nnodes=2", "--rdzv-endpoint=h:1"}, {{"MASTER_ADDR", "m"}, {"MASTER_PORT", "x"}}))
            .endpoint == Endpoint{"h", 1});
}

TEST_CASE("Trainer v2: PET_ variables only") {
  const Variables pod{{"PET_NNODES", "3"},          {"PET_NPROC_PER_NODE", "2"},
                      {"PET_NODE_RANK", "1"},       {"PET_MASTER_ADDR", "job-node-0-0"},
                      {"PET_MASTER_PORT", "29500"}, {"OMP_NUM_THREADS", "1"}};
  const auto made = plan({}, pod);
  CHECK(rdzv(made).backend == BackendKind::Static);
  CHECK(rdzv(made).endpoint == Endpoint{"job-node-0-0", 29500});
  CHECK(rdzv(made).node_rank == std::optional(1));
  CHECK(rdzv(made).local_world_size == 2);
  CHECK(made.notes.empty());
  // The same with an operator's MASTER_ADDR beside it: the more explicit one counts.
  Variables more = pod;
  more["MASTER_ADDR"] = "other";
  CHECK(rdzv(plan({}, more)).endpoint == Endpoint{"job-node-0-0", 29500});
}

TEST_CASE("c10d by name with a master and no endpoint: it is the place to meet") {
  const Variables pod{{"PET_NNODES", "3"},
                      {"PET_NODE_RANK", "1"},
                      {"PET_MASTER_ADDR", "n0"},
                      {"PET_MASTER_PORT", "29500"},
                      {"MASTER_ADDR", "other"}};
  const auto made = plan({"--rdzv-backend=c10d"}, pod);
  CHECK(rdzv(made).backend == BackendKind::C10d);
  CHECK(rdzv(made).endpoint == Endpoint{"n0", 29500});
  CHECK(rdzv(made).node_rank == std::optional(1));
  CHECK(all_notes(made) == "endpoint n0:29500, from PET_MASTER_ADDR\n");
  CHECK(rdzv(plan({"--nnodes=2", "--rdzv-backend=c10d", "--master-addr=h", "--master-port=9"})).endpoint ==
        Endpoint{"h", 9});
  CHECK_THAT(plan_error({"--nnodes=2", "--rdzv-backend=c10d", "--master-addr=h:1"}),
             StartsWith("--master-addr h:1: "));
  CHECK_THAT(plan_error({"--nnodes=2", "--rdzv-backend=c10d", "--master-addr=h", "--master-port=x"}),
             StartsWith("--master-port x: "));
}

TEST_CASE("Slurm: endpoint, port, id and hint; a step narrower than the job") {
  const Variables step{
      {"SLURM_JOB_ID", "77"}, {"SLURM_JOB_NODELIST", "n[09-10],n2"}, {"SLURM_STEP_NODELIST", "n[09-10],n2"},
      {"SLURM_NODEID", "1"},  {"SLURM_STEP_NUM_TASKS", "3"},         {"SLURM_STEP_NUM_NODES", "3"}};
  const auto made = plan({"--nnodes=3"}, step);
  CHECK(rdzv(made).endpoint == Endpoint{"n09", 20077});
  CHECK(rdzv(made).run_id == "slurm-77");
  CHECK(rdzv(made).node_rank == std::optional(1));
  CHECK(all_notes(made) == "endpoint n09:20077, from Slurm\n");
  CHECK(rdzv(plan({"--nnodes=3", "--node-rank=0", "--rdzv-endpoint=h"}, step)).node_rank == std::optional(0));
  CHECK_THAT(plan_error({"--nnodes=4"}, step),
             Contains("(Slurm's list n[09-10],n2 is shorter)") && Contains("--rdzv-endpoint"));
  Variables narrow = step;
  narrow["SLURM_STEP_NODELIST"] = "n2";
  CHECK_THAT(plan_error({"--nnodes=3"}, narrow), Contains("(Slurm's list n2 is shorter)"));
  // A loopback endpoint inside an allocation of several nodes is refused by whoever would serve it.
  CHECK(rdzv(plan({"--nnodes=3", "--rdzv-endpoint=localhost:5"}, step)).other_hosts_known);
}

TEST_CASE("LeaderWorkerSet") {
  const auto made =
      plan({"--nnodes=3"},
           {{"LWS_LEADER_ADDRESS", "lws-0.lws.default"}, {"LWS_WORKER_INDEX", "2"}, {"LWS_GROUP_SIZE", "3"}});
  CHECK(rdzv(made).endpoint == Endpoint{"lws-0.lws.default", 29400});
  CHECK(rdzv(made).node_rank == std::optional(2));
  CHECK(all_notes(made) == "endpoint lws-0.lws.default:29400, from LeaderWorkerSet\n");
}

TEST_CASE("--local-addr is passed on; a default of the table is not a wish") {
  CHECK(rdzv(plan({"--local-addr=eth0"})).local_addr == "eth0");
  CHECK(rdzv(plan({})).local_addr.empty());
}

TEST_CASE("names that travel are UTF-8 without control characters") {
  for (const char* bad : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "a\nb",
                          "\x1b[1m", "\x7f", "\xc2\x9b"}) {
    CHECK(plan_error({"--rdzv-id", bad}) ==
          "--rdzv-id " + quoted(bad) + ": must be UTF-8 text without control characters");
    CHECK(plan_error({"--role", bad}) ==
          "--role " + quoted(bad) + ": must be UTF-8 text without control characters");
    CHECK_THAT(plan_error({"--local-addr", bad}), StartsWith("--local-addr " + quoted(bad) + ": must be"));
  }
  for (const char* good : {"a b", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    CHECK(rdzv(plan({"--rdzv-id", good})).run_id == good);
}

TEST_CASE("an empty --master-addr or --local-addr says nothing") {
  CHECK_THAT(plan_error({"--nnodes=2", "--node-rank=0", "--master-addr="}),
             Contains("where shall the nodes meet?"));
  CHECK(rdzv(plan({"--nnodes=2", "--node-rank=0", "--master-addr= "}, {{"MASTER_ADDR", "m"}})).endpoint ==
        Endpoint{"m", 29500});
  CHECK(rdzv(plan({"--local-addr= "})).local_addr.empty());
}

TEST_CASE("this machine's name travels too") {
  auto facts = machine({});
  facts.host_name = [] { return std::string("a\x1b[1m\xff"); };
  CHECK(rdzv(good_plan(plan_with({"S"}, facts))).host_name == "a?[1m?");
}

TEST_CASE("what the surroundings say wrong is shown in quotes") {
  CHECK(plan_error({"--nnodes=2"}, {{"MASTER_ADDR", "m"}, {"MASTER_PORT", "\n"}}) ==
        "MASTER_PORT='\\n' is no port (1 to 65535)");
  CHECK_THAT(plan_error({"--nnodes=2"}, {{"SLURM_JOB_NODELIST", "a\n["}}),
             StartsWith("Slurm's node list 'a\\n[': "));
  CHECK(plan_error({"--nnodes=2"}, {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_JOB_ID", "x y"}}) ==
        "SLURM_JOB_ID='x y' is no number");
}
