"""Driver for dissect.vmfs: prints parts of files of a datastore that lies on one image or more.

reader.py IMAGE... -- PATH OFFSET LENGTH ...; without a path it prints the names in the root.
"""

import sys

from dissect.vmfs import lvm, vmfs


def main() -> None:
    split = sys.argv.index("--")
    images = [open(path, "rb") for path in sys.argv[1:split]]
    (volume,) = lvm.LVM(images).volumes
    datastore = vmfs.VMFS(volume.open())
    parts = sys.argv[split + 1 :]
    if not parts:
        for name in datastore.get("/").listdir():
            print(name)
    for path, offset, length in zip(parts[0::3], parts[1::3], parts[2::3], strict=True):
        file = datastore.get(path).open()
        file.seek(int(offset))
        sys.stdout.buffer.write(file.read(int(length)))


main()
