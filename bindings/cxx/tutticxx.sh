# Coroutines come with C++20; a -std of the command goes before ours.
standard=-std=c++20
for arg do
    case $arg in -std=* | --std=*) standard= ;; esac
done

