"""Real programs, built from source so that each function has a section, and relinked at will.

Sources come from Debian's source packages (`apt-get source`, with a separate index, so that the machine's
lists do not change), or from a directory that holds them by name. The Rust program is this repository.
The link command of a program is kept, so that it can be run again with other options."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import harness  # noqa: E402

FLAGS = ["-O2", "-ffunction-sections", "-fdata-sections"]
SQLITE = ["-DSQLITE_ENABLE_FTS5", "-DSQLITE_ENABLE_RTREE", "-DSQLITE_ENABLE_GEOPOLY", "-DSQLITE_ENABLE_SESSION",
          "-DSQLITE_ENABLE_PREUPDATE_HOOK", "-DSQLITE_ENABLE_FTS3", "-DSQLITE_ENABLE_DBSTAT_VTAB",
          "-DSQLITE_ENABLE_STMTVTAB", "-DSQLITE_ENABLE_MATH_FUNCTIONS"]
GIT = ["NO_TCLTK=1", "NO_GETTEXT=1", "NO_PERL=1", "NO_PYTHON=1", "NO_CURL=1", "NO_EXPAT=1", "NO_OPENSSL=1", "NO_ICONV=1"]

# Keeps the link command of one program, and copies of object files that the compiler removes afterwards.
KEEPER = """#!/bin/sh
out= previous=
for word; do
  case $word in -c|-E|-S) exec {compiler} "$@";; esac
  [ "$previous" = -o ] && out=${{word##*/}}
  previous=$word
done
case $out in {name}|{name}-*) mkdir -p {kept} && cp -p -t {kept} -- $(printf '%s\\n' "$@" | grep -E '(rcgu|/symbols)\\.o$') 2>/dev/null
  printf '%s\\0' "$PWD" "$@" > {words};; esac
exec {compiler} "$@"
"""


class Program:
    """A program, its build, and its arguments."""

    def __init__(self, name, language, package, workloads, build):
        self.name, self.language, self.package = name, language, package
        self.workloads, self.build = workloads, build


def run(argv, **options):
    """A step of a build. Its output is shown only if it fails."""
    done = subprocess.run([str(word) for word in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **options)
    if done.returncode != 0:
        raise harness.Unfit(f"{shlex.join(map(str, argv))[:200]}: {done.stdout[-600:]}")
    return done.stdout


def index(work):
    """Options of apt for an index of source packages in `work`, made at first use."""
    place = work / "apt"
    (place / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    listed, sources = place / "sources.list", set()
    for line in run(["apt-get", "indextargets", "--format", "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)",
                     "Created-By: Packages"]).splitlines():
        origin, uri, release, component = line.split("|")
        # Sources of the other suites come and go.
        if origin == "Debian" and "-" not in release:
            sources.add(f"deb-src {uri} {release} {component}\n")
    options = ["-o", f"Dir::State::Lists={place / 'lists'}", "-o", f"Dir::Etc::SourceList={listed}",
               "-o", "Dir::Etc::SourceParts=-", "-o", "APT::Sandbox::User=root"]
    if not listed.exists():
        listed.write_text("".join(sorted(sources)))
        run(["apt-get", *options, "update"])
    return options


def source(package, work, given):
    """The unpacked source of a package."""
    if given:
        return given / package
    place = work / "src" / package
    if not place.exists():
        unpacked = work / "src" / f"{package}.part"
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir(parents=True)
        run(["apt-get", *index(work), "source", package], cwd=unpacked)
        next(path for path in unpacked.iterdir() if path.is_dir()).rename(place)
    return place


def copied(place, to):
    """A copy of a source for the build."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(place, to, symlinks=True)
    return to


def keeper(place, name, compiler):
    """A compiler that keeps how it links `name`."""
    tool = place / f"keep-{compiler.split()[0].replace('+', 'x')}"
    tool.write_text(KEEPER.format(compiler=compiler, name=name, kept=place / "kept", words=place / "link"))
    tool.chmod(0o755)
    return str(tool)


def sqlite(place, source_dir, compilers, flags):
    """The shell of SQLite, with the options of distributions."""
    tree = copied(source_dir, place / "tree")
    run(["./configure", "--disable-tcl", "--disable-readline"], cwd=tree)
    run(["make", "sqlite3.c", "shell.c"], cwd=tree)
    cc = keeper(place, "sqlite3", compilers[0])
    for part in ("sqlite3", "shell"):
        run([cc, *flags, *SQLITE, "-c", f"{part}.c", "-o", f"{part}.o"], cwd=tree)
    run([cc, *flags, "sqlite3.o", "shell.o", "-o", "sqlite3", "-lm", "-lpthread", "-ldl"], cwd=tree)


def git(place, source_dir, compilers, flags):
    """git, one program for all of its commands."""
    tree = copied(source_dir, place / "tree")
    cc = keeper(place, "git", compilers[0])
    run(["make", f"-j{os.cpu_count()}", *GIT, f"CC={cc}", f"CFLAGS={' '.join(flags)}", "git"], cwd=tree)


def perl(place, source_dir, compilers, flags):
    """perl, without modules."""
    tree = copied(source_dir, place / "tree")
    cc = keeper(place, "perl", compilers[0])
    run(["sh", "Configure", "-des", f"-Dcc={cc}", f"-Doptimize={' '.join(flags)}", "-Uuseshrplib"], cwd=tree)
    run(["make", f"-j{os.cpu_count()}", "perl"], cwd=tree)


def glslang(place, source_dir, compilers, flags):
    """The reference compiler of shaders."""
    tools = [keeper(place, "glslangValidator", name) for name in compilers]
    run(["cmake", "-S", source_dir, "-B", place / "tree", "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_C_COMPILER={tools[0]}",
         f"-DCMAKE_CXX_COMPILER={tools[1]}", f"-DCMAKE_CXX_FLAGS={' '.join(flags)}", f"-DCMAKE_C_FLAGS={' '.join(flags)}",
         "-DENABLE_OPT=0", "-DBUILD_TESTING=0", "-DENABLE_CTEST=0"])
    run(["cmake", "--build", place / "tree", "--target", "glslangValidator", "-j", str(os.cpu_count())])


def pagewise(place, source_dir, compilers, _flags):
    """This program."""
    cc = keeper(place, "pagewise", compilers[0])
    # The option makes another build of the last crate; it must be linked, even if it was before.
    run(["cargo", "rustc", "--release", "--locked", "-p", "pagewise", "--bin", "pagewise", "--", "-C", f"linker={cc}",
         "-C", f"metadata={place.stat().st_mtime_ns}"], cwd=source_dir)


PROGRAMS = [
    Program("sqlite3", "C", "sqlite3", [
        [":memory:", "select 1"],
        [":memory:", "create table t(a, b); insert into t values(1, 'x'), (2, 'y'); select b, count(*) from t group by b"],
        [":memory:", "create virtual table f using fts5(a); insert into f values('some words'); select * from f('words')"],
    ], sqlite),
    Program("git", "C", "git", [
        ["-C", "REPOSITORY", "status", "--short"],
        ["-C", "REPOSITORY", "log", "--oneline", "-3"],
        ["-C", "REPOSITORY", "diff", "--stat", "HEAD~1"],
    ], git),
    Program("perl", "C", "perl", [
        ["-e", "print qq(hello\\n)"],
        ["-e", "my %n; $n{$_ % 7} .= $_ for 1..500; print join(q(,), sort keys %n), qq(\\n)"],
        ["-e", "my $t = join q( ), map { sprintf q(%03d), $_ } 1..200; $t =~ s/(\\d)(\\d)/$2$1/g; print length pack(q(N*), split q( ), $t)"],
    ], perl),
    Program("glslangValidator", "C++", "glslang", [
        ["--version"],
        ["SHADER"],
        ["-V", "SHADER", "-o", "/dev/null"],
    ], glslang),
    Program("pagewise", "Rust", None, [
        ["--help"],
        ["cache", "show", "SHADER"],
        ["run", "--list"],
    ], pagewise),
]

SHADER = """#version 450
layout(location = 0) in vec3 normal;
layout(location = 0) out vec4 color;
layout(binding = 0) uniform Light { vec4 direction; float strength; } light;
float lit(vec3 n) { return max(dot(normalize(n), light.direction.xyz), 0.0) * light.strength; }
void main() { vec3 sum = vec3(0.1); for (int i = 0; i < 4; i++) { sum += lit(normal) * 0.25; } color = vec4(sum, 1.0); }
"""


def inputs(work):
    """Files that programs are started with, by the words that stand for them."""
    shader, repository = work / "light.frag", work / "repository"
    shader.write_text(SHADER)
    if not repository.exists():
        run(["git", "init", "-q", repository])
        for number in range(4):
            for name in "abc":
                (repository / name).write_text(f"{name}{number}\n" * 40)
            run(["git", "-C", repository, "add", "."])
            run(["git", "-C", repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", f"change {number}"])
    return {"SHADER": str(shader), "REPOSITORY": str(repository)}


class Build:
    """A program that was built, with the step that links it."""

    def __init__(self, program, work, given, compilers, flags, word):
        self.place = work / f"{program.name}-{word}"
        words = self.place / "link"
        if not words.exists():
            shutil.rmtree(self.place, ignore_errors=True)
            self.place.mkdir(parents=True)
            tree = source(program.package, work, given) if program.package else harness.ROOT
            program.build(self.place, tree, compilers, flags)
        self.cwd, *self.words = words.read_text().rstrip("\0").split("\0")
        kept = {path.name: str(path) for path in (self.place / "kept").glob("*")}
        self.words = [kept.get(os.path.basename(word), word) for word in self.words]
        self.compiler = compilers[program.language == "C++"]
        at = self.words.index("-o")
        self.made = Path(self.cwd) / self.words[at + 1]
        del self.words[at : at + 2]

    def objects(self):
        """Object files and archives of the link."""
        found = [Path(self.cwd) / word for word in self.words if word.endswith((".o", ".a", ".rlib"))]
        return [str(path) for path in found if path.exists()]

    def link(self, to, *options):
        """Links it as `to` with more options and without the linker that the compiler was asked for."""
        chosen = ("-fuse-ld=", "-B")
        words = [word for word in self.words if not word.startswith(chosen)]
        made = to.with_suffix(".linked")
        run([self.compiler, *words, *options, "-o", made], cwd=self.cwd)
        # As installers copy a file: this decides the folios of the page cache.
        to.unlink(missing_ok=True)
        run(["cp", made, to])
        made.unlink()
        return to
