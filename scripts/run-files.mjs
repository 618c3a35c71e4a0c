// Runs test files in the order in which they are given, three at a time: `node --test` begins with the first of the alphabet.
import { run } from 'node:test'
import { spec } from 'node:test/reporters'

// Each file is a process, and on a GPU each has a context for every device: a few at a time are enough.
run({ files: process.argv.slice(2), concurrency: 3 })
  .on('test:fail', () => {
    process.exitCode = 1
  })
  .compose(new spec())
  .pipe(process.stdout)
