# SPDX-License-Identifier: Apache-2.0
"""How each launcher is told to do the same work."""


def one_node(bench, who: str, workers: int, program: list, restarts: int = 0) -> list:
    if who == "cxxrun":
        return [bench.cxxrun, "--nproc_per_node", str(workers), "--max-restarts", str(restarts)] + program
    if who == "floor":
        return [bench.floor, str(workers)] + program
    if who == "hydra":
        return [bench.hydra, "-n", str(workers)] + program
    if who == "parallel":
        tries = ["--retries", str(restarts + 1)] if restarts else []
        return [bench.parallel, "--will-cite", "-N0", f"-j{workers}"] + tries + program + [":::"] + \
            [str(i) for i in range(workers)]
    if who == "torchrun static":
        return [bench.torchrun, "--nproc-per-node", str(workers), "--max-restarts", str(restarts),
                "--master-port", str(bench.port()), "--no-python"] + program
    if who == "torchrun":
        return [bench.torchrun, "--standalone", "--nproc-per-node", str(workers), "--max-restarts", str(restarts),
                "--no-python"] + program
    raise ValueError(who)


def node_of_many(bench, who: str, nodes: int, port: int, program: list, restarts: int = 0) -> list:
    """The line that every node runs: one worker a node, a rendezvous on loopback."""
    if who == "cxxrun":
        return [bench.cxxrun, "--nnodes", str(nodes), "--nproc_per_node", "1", "--max-restarts", str(restarts),
                "--rdzv-endpoint", f"127.0.0.1:{port}"] + program
    if who == "torchrun":
        return [bench.torchrun, "--nnodes", str(nodes), "--nproc-per-node", "1", "--max-restarts", str(restarts),
                "--rdzv-backend", "c10d", "--rdzv-id", "bench", "--rdzv-endpoint", f"127.0.0.1:{port}",
                "--no-python"] + program
    raise ValueError(who)


def hydra_nodes(bench, nodes: int, program: list) -> list:
    """One mpiexec with a proxy per `host`, started by fork: no ssh in the figure."""
    hosts = ",".join(f"127.0.0.{i + 1}" for i in range(nodes))
    return [bench.hydra, "-launcher", "fork", "-hosts", hosts, "-ppn", "1", "-n", str(nodes)] + program


def present(bench, table, measure: str, names: list, unit: str = "ms") -> list:
    """Those of `names` that are installed; the others get a cell that says they are not."""
    paths = bench.launchers()
    found = []
    for who in names:
        if paths[who.split()[0]] is None:
            table.note(measure, who, bench.absent(who), unit)
        else:
            found.append(who)
    return found
