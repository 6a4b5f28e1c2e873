"""b2luigi: four tasks as jobs, one of which fails, and the status that it takes from squeue and sacct."""

import subprocess
import sys
from pathlib import Path

TASKS = '''
import b2luigi


class One(b2luigi.Task):
    number = b2luigi.IntParameter()

    def output(self):
        yield self.add_to_output("text")

    def run(self):
        assert self.number != 2
        with open(self.get_output_file_name("text"), "w") as text:
            text.write(str(self.number))


class All(b2luigi.WrapperTask):
    def requires(self):
        for number in range(4):
            yield One(number=number)


if __name__ == "__main__":
    b2luigi.set_setting("result_dir", "results")
    b2luigi.set_setting("batch_system", "slurm")
    b2luigi.set_setting("batch_status_cache_ttl", 1)
    b2luigi.set_setting("slurm_settings", {"partition": "tutti", "time": "5"})
    b2luigi.process(All(), batch=True, workers=4)
'''
Path("tasks.py").write_text(TASKS)
ran = subprocess.run([sys.executable, "tasks.py"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
texts = sorted(file.read_text() for file in Path("results").rglob("text"))
assert texts == ["0", "1", "3"], (texts, ran.stdout[-4000:])
assert "3 ran successfully" in ran.stdout and "1 failed" in ran.stdout, ran.stdout[-4000:]
