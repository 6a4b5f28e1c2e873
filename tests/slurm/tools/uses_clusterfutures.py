"""clusterfutures: values of functions that ran as jobs, an exception among them."""

import cfut


def inverse(number):
    return 12 / number


if __name__ == "__main__":
    with cfut.SlurmExecutor(additional_setup_lines=["#SBATCH --partition=tutti"]) as executor:
        futures = [executor.submit(inverse, number) for number in (1, 2, 3, 0)]
        assert [future.result(timeout=60) for future in futures[:3]] == [12, 6, 4]
        assert "ZeroDivisionError" in str(futures[3].exception(timeout=60))
    assert list(cfut.map(cfut.SlurmExecutor(), inverse, [4, 6])) == [3, 2]
