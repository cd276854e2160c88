# Changes modes in every way there is: prints what came of each attempt, by its name.
import ctypes, errno, os, sys, threading

rw, ro, outside, tmp = sys.argv[1:5]
libc = ctypes.CDLL(None, use_errno=True)
FCHMODAT2, AT_FDCWD, NOFOLLOW, EMPTY = 452, -100, 0x100, 0x1000


def fchmodat2(at, path, mode, flags):
    if libc.syscall(FCHMODAT2, at, path, mode, flags) != 0:
        raise OSError(ctypes.get_errno(), "")


def attempt(name, change):
    try:
        change()
        print(name, "ok")
    except OSError as error:
        print(name, errno.errorcode[error.errno])


def opened(path, flags, then):
    number = os.open(path, flags)
    try:
        then(number)
    finally:
        os.close(number)


def relative():
    os.chdir(rw)
    os.chmod("file", 0o640)
    os.chdir("/")


def climbing():
    os.chdir(rw)
    try:
        os.chmod("../outside/file", 0o777)
    finally:
        os.chdir("/")


os.symlink("file", rw + "/within")
os.mkdir(rw + "/dir")
secret = outside + "/file"
attempt("own file", lambda: os.chmod(rw + "/file", 0o600))
attempt("own directory", lambda: os.chmod(rw + "/dir", 0o700))
attempt("the mount", lambda: os.chmod(rw, 0o750))
attempt("private file", lambda: (open(tmp + "/own", "w").close(), os.chmod(tmp + "/own", 0o600)))
attempt("link within", lambda: os.chmod(rw + "/within", 0o644))
attempt("relative", relative)
attempt("by directory", lambda: opened(rw, os.O_RDONLY, lambda fd: os.chmod("file", 0o604, dir_fd=fd)))
attempt("by descriptor", lambda: opened(rw + "/file", os.O_RDONLY, lambda fd: os.fchmod(fd, 0o620)))
attempt("without a name", lambda: os.fchmod(os.memfd_create("own"), 0o600))
attempt("by place", lambda: opened(rw + "/file", os.O_PATH, lambda fd: fchmodat2(fd, b"", 0o602, EMPTY)))
attempt("descriptor of a place", lambda: opened(rw + "/file", os.O_PATH, lambda fd: os.fchmod(fd, 0o777)))
attempt("link itself", lambda: fchmodat2(AT_FDCWD, (rw + "/within").encode(), 0o777, NOFOLLOW))
attempt("unknown flag", lambda: fchmodat2(AT_FDCWD, (rw + "/file").encode(), 0o777, 1))
attempt("missing", lambda: os.chmod(rw + "/missing", 0o777))
attempt("empty", lambda: os.chmod("", 0o777))
attempt("long", lambda: os.chmod("/" + "x/" * 2100, 0o777))
attempt("set-id", lambda: os.chmod(rw + "/file", 0o4755))
attempt("outside", lambda: os.chmod(secret, 0o777))
attempt("read-only mount", lambda: os.chmod(ro + "/file", 0o777))
attempt("descriptor of it", lambda: opened(ro + "/file", os.O_RDONLY, lambda fd: os.fchmod(fd, 0o777)))
attempt("link out", lambda: os.chmod(rw + "/link", 0o777))
attempt("climbing", climbing)
attempt("climbing in path", lambda: os.chmod(rw + "/../outside/file", 0o777))
attempt("by root of proc", lambda: os.chmod("/proc/self/root" + secret, 0o777))
attempt("by directory of proc", lambda: os.chmod("/proc/self/cwd" + secret, 0o777))
attempt("by place outside", lambda: opened(secret, os.O_PATH, lambda fd: fchmodat2(fd, b"", 0o777, EMPTY)))
attempt("by directory outside", lambda: opened(outside, os.O_PATH, lambda fd: os.chmod("file", 0o777, dir_fd=fd)))
attempt("by name of proc", lambda: opened(secret, os.O_PATH, lambda fd: os.chmod("/proc/self/fd/%d" % fd, 0o777)))
attempt("beside the mount", lambda: os.chmod(rw + "2/file", 0o777))

# An owner that stays is no change.
user, group = os.getuid(), os.getgid()
attempt("own owner", lambda: os.chown(rw + "/file", user, group))
attempt("no owner", lambda: os.chown(rw + "/file", -1, -1))
attempt("own owner by descriptor", lambda: opened(rw + "/file", os.O_RDONLY, lambda fd: os.fchown(fd, user, -1)))
attempt("own owner by directory", lambda: opened(rw, os.O_RDONLY, lambda fd: os.chown("file", user, -1, dir_fd=fd)))
attempt("own owner of a link", lambda: os.lchown(rw + "/within", user, group))
attempt("own owner without a name", lambda: os.fchown(os.memfd_create("own"), user, group))
attempt("another owner", lambda: os.chown(rw + "/file", user + 1, -1))
attempt("another group", lambda: os.chown(rw + "/file", -1, group + 1))
attempt("another owner by descriptor", lambda: opened(rw + "/file", os.O_RDONLY, lambda fd: os.fchown(fd, 1, 1)))
attempt("another owner of a link", lambda: os.lchown(rw + "/within", 1, 1))
attempt("owner outside", lambda: os.chown(secret, user, group))
attempt("owner of a link out", lambda: os.chown(rw + "/link", user, group))
attempt("owner in a read-only mount", lambda: os.chown(ro + "/file", user, group))
attempt("owner of a missing file", lambda: os.chown(rw + "/missing", user, group))

# A name that is one file now and another one then.
os.mkdir(rw + "/race")
open(rw + "/race/file", "w").close()
os.symlink(outside, rw + "/race-out")
done = False


def exchange():
    while not done:
        for a, b in (("race", "race-away"), ("race-out", "race"), ("race", "race-out"), ("race-away", "race")):
            os.rename(rw + "/" + a, rw + "/" + b)


racer = threading.Thread(target=exchange)
racer.start()
won = set()
for _ in range(3000):
    try:
        os.chmod(rw + "/race/file", 0o777)
        won.add("ok")
    except OSError as error:
        won.add(errno.errorcode[error.errno])
done = True
racer.join()
print("race", "ok" if "ok" in won else won)
