"""Tests of the package that need no other process: python3 -m unittest test_package."""

from __future__ import annotations

import ctypes
import errno
import importlib.util
import os
import random
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import mappedfilequeues as mfq
from mappedfilequeues import _crc, _library

HERE = Path(__file__).parent
HAS_NUMPY = importlib.util.find_spec("numpy") is not None


def _load_generator():
    spec = importlib.util.spec_from_file_location("make", HERE.parent / "vectors/make.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make"] = module
    spec.loader.exec_module(module)
    return module


class StoreTests(unittest.TestCase):
    def setUp(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mfq-test-")
        self.addCleanup(self._folder.cleanup)
        self.make = _load_generator()

    def write(self, store) -> str:
        store.write(Path(self._folder.name))
        return os.path.join(self._folder.name, store.name)

    def trades(self, count: int, size: int = 24, broken: int | None = None) -> str:
        store = self.make.Store("trades", "", kind=1, struct_size=size, fingerprint=1, segment_length=16384)
        for i in range(count):
            offset = store.add(struct.pack("<qdi4x", i, i / 2, -i)[:size], self.make.Headers(time=i) if i == 40 else None)
            if i == broken:
                store.flip(offset + 12)
        return self.write(store)

    def case(self, name: str) -> str:
        if not self.make.CASES:
            self.make.make_orderly()
        return self.write(next(store for store in self.make.CASES if store.name == name))

    def test_message_outlives_the_reader(self) -> None:
        with mfq.Reader(self.trades(1000)) as reader:
            messages = list(reader)
        self.assertEqual([struct.unpack_from("<q", m.data)[0] for m in messages], list(range(1000)))

    def test_reader_that_is_dropped_leaves_nothing_open(self) -> None:
        # A consumer kept its name until the process ended: the next one heard that another process had it.
        path = self.trades(1000)
        before = os.listdir("/proc/self/fd")
        next(mfq.Reader(path).follow())
        self.assertRaises(mfq.OutOfRangeError, mfq.Reader(path).seek, 8)
        self.assertRaises(ValueError, mfq.Consumer, path, "a/b")
        self.assertEqual(os.listdir("/proc/self/fd"), before)

    def test_empty_path_is_not_the_working_directory(self) -> None:
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.trades(1))
        self.assertRaises(ValueError, mfq.Reader, "")

    def test_flags_that_are_no_byte_are_refused(self) -> None:
        from mappedfilequeues import _producer

        self.assertRaises(ValueError, _producer._block_of, mfq.Headers(trace_id=bytes(16), span_id=bytes(8), trace_flags=256))

    def test_seek_goes_to_frames_only(self) -> None:
        with mfq.Reader(self.trades(1000)) as reader:
            offsets = [m.offset for m in reader]
            reader.seek(offsets[700])
            message = reader.read()
            assert message is not None
            self.assertEqual(message.offset, offsets[700])
            self.assertRaises(mfq.OutOfRangeError, reader.seek, offsets[700] + 8)
            reader.seek(mfq.LATEST)
            self.assertIsNone(reader.read())
            self.assertIsNone(reader.wait(0.05))
            with self.assertRaises(ValueError):
                reader.wait(float("nan"))

    def test_consumer_alone_without_a_control_page_is_refused(self) -> None:
        path = self.trades(1)
        self.assertRaises(mfq.RecoveryNeededError, mfq.Consumer, path, "c")
        self.assertRaises(ValueError, mfq.Consumer, path, "a/b")

    def test_consumer_that_may_not_give_files_away_works(self) -> None:
        # The owner has no number here, as in a user namespace: the consumer failed, and left lock files that others cannot open.
        path = self.case("in-order")
        os.chmod(os.path.join(path, "queue.meta"), 0o660)
        before = os.listdir("/proc/self/fd")
        with mock.patch.object(os, "fchown", side_effect=OSError(errno.EINVAL, "")):
            mfq.Consumer(path, "c").close()
        for name in ("locks/open", "locks/consumer-c", "offset/consumers/c.cursor"):
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(path, name)).st_mode), 0o660, name)
        os.unlink(os.path.join(path, "locks/consumer-c"))
        with mock.patch.object(os, "fchmod", side_effect=OSError(errno.EIO, "")):
            self.assertRaises(OSError, mfq.Consumer, path, "c")
        self.assertEqual(os.listdir("/proc/self/fd"), before)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_folder_of_locks_belongs_to_the_owner_of_the_store(self) -> None:
        # Root made it for itself: the owner's processes could make no lock file any more.
        path = self.case("in-order")
        shutil.rmtree(os.path.join(path, "locks"))
        try:
            os.chown(os.path.join(path, "queue.meta"), 1234, 5678)
        except OSError as error:  # A user namespace without this user.
            self.skipTest(str(error))
        self.assertRaises(mfq.RecoveryNeededError, mfq.Consumer, path, "c")
        for name in ("locks", "locks/open"):
            made = os.stat(os.path.join(path, name))
            self.assertEqual((made.st_uid, made.st_gid), (1234, 5678), name)

    def test_folders_that_cannot_be_synced_are_left_alone(self) -> None:
        with mock.patch.object(os, "fsync", side_effect=OSError(errno.EINVAL, "")):
            mfq.Consumer(self.case("in-order")).close()

    def test_lock_files_that_were_removed_are_no_other_user(self) -> None:
        path = self.case("alone-claim")
        os.unlink(os.path.join(path, "locks/slot-0007"))
        with mfq.Reader(path) as reader, self.assertRaises(mfq.DeletedError):
            list(reader)

    def test_error_of_the_disk_is_no_hole(self) -> None:
        # What may be beyond the end of the log was not looked at.
        with mock.patch.object(os, "lseek", side_effect=OSError(errno.EIO, "")):
            self.assertRaises(mfq.RecoveryNeededError, mfq.Consumer, self.case("in-order"), "c")

    def test_producer_without_the_library_says_what_it_needs(self) -> None:
        if _library.find() is not None:
            self.skipTest("the C library is installed")
        self.assertRaisesRegex(NotImplementedError, "libmfq.so.2", mfq.Producer, self.trades(1))

    def test_library_that_comes_later_is_found(self) -> None:
        # A service was started before the library was installed: each later producer was refused until the service ended.
        _library.find.cache_clear()
        self.addCleanup(_library.find.cache_clear)
        path = self.trades(1)
        with mock.patch.object(ctypes, "CDLL", side_effect=OSError):
            self.assertRaises(NotImplementedError, mfq.Producer, path)
        with mock.patch.object(ctypes, "CDLL") as load:
            load.return_value.mfq_producer_open.return_value = 0
            mfq.Producer(path).close()
            mfq.Producer(path).close()
        self.assertEqual(load.call_count, 1)

    def test_crc_is_that_of_every_language(self) -> None:
        self.assertEqual(_crc.page_crc(b"123456789"), 0xE3069283)

    def test_damaged_stores_end_in_an_error(self) -> None:
        rng = random.Random(1)
        path = self.trades(200)
        segment = Path(path, "commitlog", f"{0:020}.log")
        whole = segment.read_bytes()
        known = {(m.offset, bytes(m)) for m in mfq.Reader(path)}
        for _ in range(300):
            data = bytearray(whole)
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            segment.write_bytes(data[:rng.choice((len(data), len(data), rng.randrange(len(data))))])
            try:
                with mfq.Reader(path) as reader:
                    for message in reader:
                        self.assertIn((message.offset, bytes(message)), known)
            except mfq.CorruptError:
                pass

    @unittest.skipUnless(HAS_NUMPY, "numpy is not installed")
    def test_batches_are_the_messages(self) -> None:
        import numpy as np

        dtype = np.dtype([("id", "<i8"), ("price", "<f8"), ("quantity", "<i4"), ("_pad", "<i4")])
        with mfq.Reader(self.trades(1000)) as reader:
            ids, batches = [], 0
            while len(batch := reader.read_structs(dtype, 300)):
                ids += batch["id"].tolist()
                batches += 1
            self.assertEqual(ids, list(range(1000)))
            self.assertLess(batches, 12)
            self.assertFalse(batch.flags.writeable and len(batch))

    @unittest.skipUnless(HAS_NUMPY, "numpy is not installed")
    def test_batches_of_an_odd_size_are_the_messages(self) -> None:
        import numpy as np

        with mfq.Reader(self.trades(1000, size=13)) as reader:
            ids = []
            while len(batch := reader.read_structs(np.dtype([("id", "<i8"), ("rest", "S5")]))):
                ids += batch["id"].tolist()
            self.assertEqual(ids, list(range(1000)))

    @unittest.skipUnless(HAS_NUMPY, "numpy is not installed")
    def test_batches_stop_before_damage(self) -> None:
        import numpy as np

        dtype = np.dtype([("id", "<i8"), ("price", "<f8"), ("rest", "<i8")])
        with mfq.Reader(self.trades(100, broken=77)) as reader:
            ids: list[int] = []
            with self.assertRaises(mfq.CorruptError):
                while len(batch := reader.read_structs(dtype)):
                    ids += batch["id"].tolist()
            self.assertEqual(ids, list(range(77)))

    def test_module_prints_a_store(self) -> None:
        run = subprocess.run([sys.executable, "-m", "mappedfilequeues", self.trades(3), "--hex"], cwd=HERE, capture_output=True,
                             text=True, check=True)
        self.assertEqual(len(run.stdout.splitlines()), 3)


if __name__ == "__main__":
    unittest.main()
