#!/bin/bash
# meshio 5.3.5 writes meshes in some forty formats. Here it is a hexahedron and a tetrahedron with a number at each point and
# in each cell. VTU and XDMF keep all. Exodus has variables of elements ("vals_elem_var1eb1"), and meshio reads them; it does
# not write them: the numbers of the cells are gone from the file. Of CGNS it writes tetrahedra alone, the hexahedron and both
# kinds of numbers are gone, and no group of the file has the attributes that make it a node of CGNS (its name, label and
# type), so pyCGNS 6.3.5 finds nodes without names, labels and values. Nothing is said in either case.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check meshio==5.3.5 h5py==3.16.0 netCDF4==1.7.5.1.post1 pyCGNS==6.3.5 numpy==2.4.6
cat >write.py <<'END'
import CGNS.MAP, h5py, meshio, netCDF4

points = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1], [0.5, 0.5, 2]]
cells = [("hexahedron", [[0, 1, 2, 3, 4, 5, 6, 7]]), ("tetra", [[4, 5, 6, 8]])]
heights, pressures = [float(point[2]) for point in points], [[1.5], [2.5]]
for name in "mesh.vtu", "mesh.xdmf", "mesh.e", "mesh.cgns":
    meshio.write(name, meshio.Mesh(points, cells, {"height": heights}, {"pressure": pressures}))
    mesh = meshio.read(name)
    kinds = [block.type for block in mesh.cells]
    print(f"{name}: {kinds}, of points {list(mesh.point_data)}, of cells {list(mesh.cell_data)}")
print("mesh.e has", [name for name in netCDF4.Dataset("mesh.e").variables if name.startswith("vals_")])
with h5py.File("mesh.cgns") as file:
    print("mesh.cgns has", len(file["Base/Zone1/GridCoordinates"].attrs), "attributes of its coordinates;", end=" ")
base = CGNS.MAP.load("mesh.cgns")[0][2][0]
print(f"pyCGNS: name {base[0]!r}, label {base[3]!r}")
END
timeout 100 venv/bin/python write.py 2>&1 | tee said
cat >expected <<'END'
mesh.vtu: ['hexahedron', 'tetra'], of points ['height'], of cells ['pressure']
mesh.xdmf: ['hexahedron', 'tetra'], of points ['height'], of cells ['pressure']
mesh.e: ['hexahedron', 'tetra'], of points ['height'], of cells []
mesh.cgns: ['tetra'], of points [], of cells []
mesh.e has ['vals_nod_var1']
mesh.cgns has 0 attributes of its coordinates; pyCGNS: name '', label ''
END
cmp -s said expected || { echo "this has changed"; exit 1; }
