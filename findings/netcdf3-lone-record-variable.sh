#!/bin/bash
# Records of a NetCDF-3 file are padded to four bytes, with one exception in its specification: "In the special case of only a
# single record variable of type character, byte, or short, no padding is used between data values." The crate netcdf3 0.6.1
# pads there too. So 3 records of 3 shorts that it writes are other numbers for the netCDF library: each record begins one
# short too late, and between them are fill values. It reads its own file right, and a file of the library not at all
# ("UnexpectedEof"). With a second record variable both agree. Seen with netCDF4 1.7.5.1.post1 of PyPI.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check netCDF4==1.7.5.1.post1 numpy==2.4.6
mkdir src
cat >Cargo.toml <<'END'
[package]
name = "records"
version = "0.1.0"
edition = "2021"

[dependencies]
netcdf3 = "=0.6.1"
END
cat >src/main.rs <<'END'
use netcdf3::{DataSet, FileReader, FileWriter, Version};

fn main() {
    let numbers = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    for names in [&["a"][..], &["a", "b"][..]] {
        let file = format!("crate{}.nc", names.len());
        let mut set = DataSet::new();
        set.set_unlimited_dim("time", 3).unwrap();
        set.add_fixed_dim("x", 3).unwrap();
        for name in names {
            set.add_var_i16(name, &["time", "x"]).unwrap();
        }
        let mut writer = FileWriter::create_new(&file).unwrap();
        writer.set_def(&set, Version::Classic, 0).unwrap();
        for name in names {
            writer.write_var_i16(name, &numbers).unwrap();
        }
        writer.close().unwrap();
        for file in [file, format!("library{}.nc", names.len())] {
            let read = FileReader::open(&file).unwrap().read_var("a");
            println!("{file}, by the crate: {}", read.map_or_else(|e| format!("{e:?}"), |v| format!("{:?}", v.get_i16().unwrap())));
        }
    }
}
END
cat >library.py <<'END'
import sys
import netCDF4, numpy as np

for names in "a", "ab":
    if sys.argv[1] == "write":
        with netCDF4.Dataset(f"library{len(names)}.nc", "w", format="NETCDF3_CLASSIC") as file:
            file.createDimension("time", None)
            file.createDimension("x", 3)
            for name in names:
                file.createVariable(name, "i2", ("time", "x"))[:3] = np.arange(1, 10).reshape(3, 3)
    else:
        with netCDF4.Dataset(f"crate{len(names)}.nc") as file:
            file.set_auto_mask(False)
            print(f"crate{len(names)}.nc, by the library:", file["a"][:].ravel().tolist())
END
cargo build --quiet --target-dir target 2>/dev/null || cargo build --target-dir target
venv/bin/python library.py write
target/debug/records | tee said
venv/bin/python library.py read | tee -a said
cat >expected <<'END'
crate1.nc, by the crate: [1, 2, 3, 4, 5, 6, 7, 8, 9]
library1.nc, by the crate: IOErrorKind(UnexpectedEof)
crate2.nc, by the crate: [1, 2, 3, 4, 5, 6, 7, 8, 9]
library2.nc, by the crate: [1, 2, 3, 4, 5, 6, 7, 8, 9]
crate1.nc, by the library: [1, 2, 3, -32767, 4, 5, 6, -32767, 7]
crate2.nc, by the library: [1, 2, 3, 4, 5, 6, 7, 8, 9]
END
cmp -s said expected || { echo "this has changed"; exit 1; }
