# SPDX-License-Identifier: Apache-2.0
"""The packages: built, installed into a scratch root, used, removed. And the program with nothing around it."""
import os
import pathlib
import re
import subprocess

import harness

BUILD_DIR = pathlib.Path(os.environ.get("CXXRUN_BUILD_DIR", harness.BIN_DIR.parent))

CONSUMER = """
cmake_minimum_required(VERSION 3.25)
project(consumer CXX)
find_package(cxxrun REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE cxxrun::worker)
"""


class Packaging(harness.Case):
    def run_tool(self, *command, **options):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def packages(self):
        """Builds the debs; name -> path."""
        self.run_tool("cpack", "--config", BUILD_DIR / "CPackConfig.cmake", "-G", "DEB", "-B", self.dir / "pack", cwd=self.dir)
        found = {self.run_tool("dpkg-deb", "-f", path, "Package").strip(): path for path in (self.dir / "pack").glob("*.deb")}
        self.assertEqual(sorted(found), ["cxxrun", "libcxxrun-dev"])
        return found

    def dpkg(self, root, *arguments):
        """dpkg on a scratch root with a database of its own: the machine's is not touched."""
        for name in ("info", "updates", "triggers"):
            (root / "var/lib/dpkg" / name).mkdir(parents=True, exist_ok=True)
        for name in ("status", "available"):
            (root / "var/lib/dpkg" / name).touch()
        return self.run_tool("dpkg", f"--root={root}", "--force-depends", "--force-not-root", "--log=/dev/null", *arguments)

    def test_install_run_remove(self):
        packages = self.packages()
        root = self.dir / "root"
        self.dpkg(root, "-i", packages["cxxrun"])
        program = root / "usr/bin/cxxrun"
        version = self.start(["--version"], program=program)
        self.assertEqual(version.code(), 0)
        self.assertRegex(version.out, r"^cxxrun \d+\.\d+\.\d+")
        self.assertEqual(self.run_tool("dpkg-deb", "-f", packages["cxxrun"], "Version").strip(), re.search(r"\d+\.\d+\.\d+", version.out).group())
        job = self.start(["--nproc_per_node", "2", self.worker, "barrier:b", "[rank=1]exit:7", "forever"], program=program)
        self.assertEqual(job.code(), 7)
        depends = self.run_tool("dpkg-deb", "-f", packages["cxxrun"], "Depends")
        self.assertNotRegex(depends, r"libstdc\+\+|libssl|fmt|spdlog", "the program brings its C++ runtime along")
        self.assertTrue((root / "usr/share/doc/cxxrun/copyright").exists())
        self.dpkg(root, "-P", "cxxrun")
        self.assertFalse(program.exists())
        self.assertFalse((root / "usr/share/doc/cxxrun").exists())

    def test_library_in_another_project(self):
        packages = self.packages()
        root = self.dir / "root"
        self.dpkg(root, "-i", packages["libcxxrun-dev"])
        headers = sorted(path.relative_to(root / "usr/include/cxxrun") for path in (root / "usr/include/cxxrun/worker").glob("*.hpp")
                         if not path.name.startswith("gloo"))
        self.assertTrue(headers)
        project = self.dir / "consumer"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(CONSUMER)
        (project / "main.cpp").write_text("".join(f'#include "{header}"\n' for header in headers) + "int main() { return 0; }\n")
        self.run_tool("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={root}/usr", cwd=self.dir)
        self.run_tool("cmake", "--build", project / "build", cwd=self.dir)
        self.run_tool(project / "build" / "consumer")

    def test_alone_in_a_container(self):
        """First process in a root folder that holds the program, the C library and one worker: nothing else is needed."""
        root = self.dir / "root"
        (root / "usr/bin").mkdir(parents=True)
        self.run_tool("install", "-D", harness.CXXRUN, root / "usr/bin/cxxrun")
        self.run_tool("install", "-D", "/bin/true", root / "bin/true")
        self.run_tool("install", "-D", self.worker, root / "bin/worker")
        for program in (harness.CXXRUN, "/bin/true", self.worker):
            for library in re.findall(r"(/\S+\.so\S*) \(0x", self.run_tool("ldd", program)):
                self.run_tool("install", "-D", os.path.realpath(library), str(root) + library)
        for name in ("proc", "dev", "tmp"):
            (root / name).mkdir()
        harness.sh("mount", "--bind", "/dev", root / "dev")
        try:
            for step, code in (("exit:0", 0), ("exit:7", 7), ("raise:KILL", 137)):
                agent = self.start(["--pid", "--fork", f"--root={root}", "--mount-proc=/proc", "--kill-child", "/usr/bin/cxxrun",
                                    "--nproc_per_node", "2", "/bin/worker", "barrier:b", step], program="unshare")
                self.assertEqual(agent.code(), code)
        finally:
            harness.sh("umount", "-l", root / "dev")

    def test_container_recipe(self):
        """Each stage's commands name things that exist: packages' tools, the preset, the target, the entrypoint."""
        recipe = (harness.SOURCE / "packaging/container/Containerfile").read_text()
        self.assertIn('ENTRYPOINT ["cxxrun"]', recipe)
        self.assertIn("FROM debian:12 AS build", recipe)
        build = self.dir / "build"
        self.run_tool("cmake", "--preset", "release", "-S", harness.SOURCE, "-B", build, "-DBUILD_TESTING=OFF", "-DCXXRUN_GLOO=OFF")
        self.run_tool("ninja", "-C", build, "-n", "cxxrun")


if __name__ == "__main__":
    harness.main()
