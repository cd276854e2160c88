# Watches files in every way there is: prints what came of each attempt, by its name.
import ctypes, errno, os, struct, sys

rw, ro, outside, tmp = sys.argv[1:5]
libc = ctypes.CDLL(None, use_errno=True)
MODIFY, CREATE, DONT_FOLLOW, ONLYDIR = 0x2, 0x100, 0x2000000, 0x1000000
instance = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)


def watch(path, mask=MODIFY | CREATE, of=None):
    number = libc.inotify_add_watch(instance if of is None else of, path.encode(), mask)
    if number < 0:
        raise OSError(ctypes.get_errno(), "")
    return number


def attempt(name, add):
    try:
        told = add()
        print(name, told if isinstance(told, str) else "ok")
    except OSError as error:
        print(name, errno.errorcode[error.errno])


def within(directory, add):
    os.chdir(directory)
    try:
        return add()
    finally:
        os.chdir("/")


def events():
    number = watch(rw + "/dir")
    open(rw + "/dir/made", "w").close()
    told = os.read(instance, 4096)
    found, _, _, length = struct.unpack("iIII", told[:16])
    return "ok" if (found, told[16:16 + length].rstrip(b"\0")) == (number, b"made") else str(told)


os.mkdir(rw + "/dir")
os.symlink("file", rw + "/within")
os.symlink(outside, rw + "/out")
attempt("own directory", events)
attempt("own file", lambda: watch(rw + "/file"))
attempt("the mount", lambda: watch(rw))
attempt("read-only mount", lambda: watch(ro))
attempt("file in it", lambda: watch(ro + "/file"))
attempt("private directory", lambda: watch(tmp))
attempt("link within", lambda: watch(rw + "/within"))
attempt("relative", lambda: within(rw, lambda: watch("dir/../file")))
attempt("again", lambda: "ok" if watch(rw + "/file") == watch(rw + "/file") else "another number")
attempt("link itself", lambda: watch(rw + "/out", MODIFY | DONT_FOLLOW))
attempt("a file as a directory", lambda: watch(rw + "/file", MODIFY | ONLYDIR))
attempt("no events", lambda: watch(rw + "/file", 0))
attempt("another kind of descriptor", lambda: watch(rw + "/file", of=0))
attempt("no descriptor", lambda: watch(rw + "/file", of=999))
attempt("missing", lambda: watch(rw + "/missing"))
attempt("empty", lambda: watch(""))
attempt("outside", lambda: watch(outside))
attempt("file outside", lambda: watch(outside + "/file"))
attempt("link out", lambda: watch(rw + "/out"))
attempt("climbing", lambda: within(rw, lambda: watch("../outside")))
attempt("root", lambda: watch("/"))
attempt("system", lambda: watch("/etc"))
attempt("temporary directory", lambda: watch("/tmp"))
attempt("beside the mount", lambda: watch(rw + "2"))
attempt("by root of proc", lambda: watch("/proc/self/root" + outside))
