// SPDX-License-Identifier: Apache-2.0
#include "cli/help.hpp"

namespace cxxrun::cli {

const std::string_view kHelp =
    R"help(usage: cxxrun [options] program [arguments of the program ...]

Starts the workers of this node; the same line on every node makes one job.
  cxxrun --nproc-per-node 4 ./train
  cxxrun --nnodes 3 --nproc_per_node 1 --rdzv-endpoint node1:29400 ./train

Options stand before the program; - and _ in their names mean the same.
In brackets: the default, and the variable that sets it. A flag wins over its
variable, that over ~/.config/cxxrun.conf, that over /etc/cxxrun.conf.

Sizes:
  --nnodes N|MIN:MAX
      number of nodes; MIN:MAX: elastic
      [1, PET_NNODES]
  --nproc-per-node N|auto|cpu|gpu
      workers on this node; auto: GPUs, else usable CPUs
      [1, PET_NPROC_PER_NODE]
  --standalone
      one node, nothing of the surroundings is looked at
      [PET_STANDALONE]

Where the nodes meet:
  --rdzv-endpoint HOST[:PORT]
      the same on every node; HOST is one of them (port 29400)
      [PET_RDZV_ENDPOINT]
  --rdzv-backend c10d|static
      c10d: whoever owns HOST serves; static: node rank 0 does
      [PET_RDZV_BACKEND]
  --rdzv-id ID
      name of the job, the same on every node
      [none, PET_RDZV_ID]
  --rdzv-conf K=V,K=V
      time limits and more, see docs/reference.md
      [PET_RDZV_CONF]
  --node-rank N
      static: rank of this node; c10d: a hint, honoured if unique
      [PET_NODE_RANK]
  --master-addr HOST
      static: where node rank 0 serves
      [127.0.0.1, PET_MASTER_ADDR]
  --master-port PORT
      static: its port
      [29500, PET_MASTER_PORT]
  --local-addr ADDR
      what this node advertises: address, name, interface, prefix
      [PET_LOCAL_ADDR]
  --port-range A-B
      every port that cxxrun opens lies in it
      [PET_PORT_RANGE]
  --worker-store agent|none
      who serves MASTER_PORT: the agent, or the worker itself
      [agent, PET_WORKER_STORE]

Restarts and stopping:
  --max-restarts N
      restarts of the whole job after failures
      [0, PET_MAX_RESTARTS]
  --restart-exit-codes CODES
      only these restart: 1,64-78,SIGKILL
      [PET_RESTART_EXIT_CODES]
  --no-restart-exit-codes CODES
      these do not
      [PET_NO_RESTART_EXIT_CODES]
  --heartbeat-timeout SECONDS
      a worker that has beaten and stops so long failed; 0: off
      [0, PET_HEARTBEAT_TIMEOUT]
  --shutdown-timeout SECONDS
      from the stop signal to SIGKILL, full for each worker
      [30, PET_SHUTDOWN_TIMEOUT]
  --signals-to-handle NAMES
      signals that stop the job
      [SIGTERM,SIGINT,SIGHUP,SIGQUIT, PET_SIGNALS_TO_HANDLE]

Output of the workers:
  --log-dir FOLDER
      base of the log files
      [PET_LOG_DIR]
  -r, --redirects 0-3|RANK:0-3,...
      to files: 1 stdout, 2 stderr, 3 both; by local rank
      [0, PET_REDIRECTS]
  -t, --tee 0-3|RANK:0-3,...
      the same, to files and to the console
      [0, PET_TEE]
  --log-line-prefix-template TEXT
      with ${rank}, ${local_rank}, ${role_name}, ${hostname}
      [PET_LOG_LINE_PREFIX_TEMPLATE]
  --local-ranks-filter RANKS
      local ranks that may write to the console
      [PET_LOCAL_RANKS_FILTER]
  --ranks-filter RANKS
      the same by global rank
      [PET_RANKS_FILTER]
  --duplicate-stdout-filters TEXTS
      lines with one of these also go to one file
      [PET_DUPLICATE_STDOUT_FILTERS]
  --duplicate-stderr-filters TEXTS
      the same for stderr
      [PET_DUPLICATE_STDERR_FILTERS]
  --log-format text|json
      json: each line of agent and workers is an object
      [text, PET_LOG_FORMAT]
  --stderr pipe|inherit
      inherit: untouched, but no last words in the report
      [pipe, PET_STDERR]

What runs:
  -m, --module
      the program is a Python module
      [PET_MODULE]
  --no-python
      execute it as it is, never with Python
      [PET_NO_PYTHON]
  --role NAME
      ROLE_NAME of this node's workers
      [default, PET_ROLE]
  --start-method spawn
      a fresh program for each worker
      [spawn, PET_START_METHOD]
  --stdin-rank RANK
      local rank of the worker that owns the terminal
      [PET_STDIN_RANK]

CPUs and devices:
  --numa-binding MODE
      node, socket, exclusive or core-complex
      [PET_NUMA_BINDING]
  --gpus LIST
      the devices of this node's workers: 2,4,7
      [PET_GPUS]
  --virtual-local-rank
      LOCAL_RANK=0 and one device for each worker
      [PET_VIRTUAL_LOCAL_RANK]

Reports:
  --result-file FILE
      how it ended, as JSON
      [PET_RESULT_FILE]
  --exit-code CLASS=N,...|kubeflow
      usage, rendezvous, lost-node, stopped, peer-failed
      [PET_EXIT_CODE]
  --event-log-handler null|console|/PATH
      events of workers and agent, as JSON lines
      [null, PET_EVENT_LOG_HANDLER]
  --metrics null|console|/PATH
      counts and durations, as JSON lines
      [null, PET_METRICS]
  --health-check-port PORT
      answers whether the job goes on; 0: none
      [0, PET_HEALTH_CHECK_PORT]
  --monitor-interval SECONDS
      accepted, without effect: nothing here polls
      [0.1, PET_MONITOR_INTERVAL]

Other:
  --dry-run[=text|json]
      print the plan and where it comes from; start nothing
  --completion bash|zsh|fish
      print the shell's completion
  -h, --help
      this text
  --version
      the version

Only as cxxrun-launch (deprecated):
  --use-env
      no --local-rank=N for the program

Exit codes: 0, the first failed worker's own code, 128 + its signal; 2 usage,
69 rendezvous, 75 nodes missing, 126, 127 program. See docs/exit-codes.md.
)help";

const std::string_view kVersion = "cxxrun " CXXRUN_VERSION "\n";

}  // namespace cxxrun::cli
