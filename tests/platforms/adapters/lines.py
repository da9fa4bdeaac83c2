"""A program that takes a step per line and answers in JSON per line: the adapters in other languages."""

import json
import subprocess


class Lines:
    def __init__(self, words, **options):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)

    def ask(self, step):
        """Errors: what the step's answer has as 'error'; a program that ended."""
        self.process.stdin.write(step + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("%s ended with status %s" % (self.process.args[0], self.process.wait()))
        answer = json.loads(line)
        if answer.get("error"):
            raise RuntimeError(answer["error"])
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()
