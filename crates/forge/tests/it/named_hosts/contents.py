"""The files that the servers serve to package managers, in the directory that the argument names:
one package of each kind, called `own`, and a git repository."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile

ORIGIN = "http://one.example"
MANIFEST = '[package]\nname = "own"\nversion = "1.0.0"\nedition = "2021"\n'


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def archive(path, top, files):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(top + "/" + name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))


def digest(path, name):
    with open(path, "rb") as file:
        return hashlib.new(name, file.read()).hexdigest()


def python():
    wheel = "own-1.0-py3-none-any.whl"
    write("simple/own/index.html", '<a href="%s">%s</a>\n' % (wheel, wheel))
    with zipfile.ZipFile("simple/own/" + wheel, "w") as file:
        file.writestr("own.py", "name = 'own'\n")
        info = "own-1.0.dist-info/"
        file.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
        file.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(info + "RECORD", "own.py,,\n")


def node():
    manifest = {"name": "own", "version": "1.0.0", "main": "index.js"}
    files = {"package.json": json.dumps(manifest), "index.js": "module.exports = 'own'\n"}
    archive("npm/own-1.0.0.tgz", "package", files)
    manifest["dist"] = {
        "tarball": ORIGIN + "/npm/own-1.0.0.tgz",
        "shasum": digest("npm/own-1.0.0.tgz", "sha1"),
    }
    listing = {"name": "own", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": manifest}}
    write("npm/own", json.dumps(listing))


def cargo():
    file = "crates/own-1.0.0.crate"
    archive(file, "own-1.0.0", {"Cargo.toml": MANIFEST, "src/lib.rs": ""})
    row = {"name": "own", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False}
    row["cksum"] = digest(file, "sha256")
    write("crates/3/o/own", json.dumps(row) + "\n")
    download = ORIGIN + "/crates/{crate}-{version}.crate"
    write("crates/config.json", json.dumps({"dl": download}))


def maven():
    write(
        "maven/own/parent/1.0/parent-1.0.pom",
        "<project><modelVersion>4.0.0</modelVersion><groupId>own</groupId>"
        "<artifactId>parent</artifactId><version>1.0</version><packaging>pom</packaging></project>\n",
    )


def debian():
    write("debian/dists/own/main/binary-amd64/Packages", "")
    empty = hashlib.sha256(b"").hexdigest()
    write(
        "debian/dists/own/Release",
        "Origin: own\nSuite: own\nCodename: own\nDate: Thu, 01 Jan 2026 00:00:00 UTC\n"
        "Architectures: amd64\nComponents: main\nSHA256:\n %s 0 main/binary-amd64/Packages\n" % empty,
    )


def git():
    write("tree/own.txt", "own\n")
    write("tree/Cargo.toml", MANIFEST)
    write("tree/src/lib.rs", "")
    identity = ["-c", "user.name=A. Person", "-c", "user.email=a@example.com"]
    for command in [
        ["-C", "tree", "init", "--quiet", "--initial-branch=main"],
        ["-C", "tree", "add", "."],
        ["-C", "tree", *identity, "commit", "--quiet", "--message=one"],
        ["clone", "--quiet", "--bare", "tree", "repo.git"],
        ["-C", "repo.git", "update-server-info"],
    ]:
        subprocess.run(["git", *command], check=True)


os.chdir(sys.argv[1])
for make in [python, node, cargo, maven, debian, git]:
    make()
