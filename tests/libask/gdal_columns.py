# SPDX-License-Identifier: Apache-2.0
"""gdal_columns.py FILE.csv TASK HOST ROWS: sends the columns `key` and `value` of a file as GDAL reads it, as Arrow has them, in batches of so
many rows: by ask.send if there is but one. They are not copied on the way. Bindings of GDAL that have no __arrow_c_array__ of their own give addresses."""

import ctypes
import sys

import ask
from osgeo import gdal

new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class Batch:
    """A record batch of GDAL's, which keeps it: the capsules release nothing."""

    def __init__(self, schema, array):
        self.schema, self.array = schema, array

    def __arrow_c_array__(self, requested_schema=None):
        return (
            new_capsule(int(self.schema._getPtr()), b"arrow_schema", None),
            new_capsule(int(self.array._getPtr()), b"arrow_array", None),
        )


path, task, host, rows = sys.argv[1:]
gdal.UseExceptions()
source = gdal.OpenEx(path, gdal.OF_VECTOR, open_options=["AUTODETECT_TYPE=YES"])
stream = source.GetLayer(0).GetArrowStream(["INCLUDE_FID=NO", f"MAX_FEATURES_IN_BATCH={rows}"])
schema = stream.GetSchema()
batches = []
while (array := stream.GetNextRecordBatch()) is not None:
    batches.append(Batch(schema, array))
if len(batches) == 1:
    ask.send(task, batches[0], to=host)
else:
    with ask.Sender(task, host, sample=batches[0]) as to:
        for batch in batches:
            to.push(batch)
        to.finish()
print(f"{len(batches)} batches")
