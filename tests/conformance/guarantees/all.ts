/**
 * Loads every file of this folder: they are short, so one process plays them all where each process begins a driver of its own.
 *
 * That a stream does not wait for another that stands is asked by synchronize(): where it does wait, the simulator refuses that with ERR_DEADLOCK,
 * and a promise would never settle.
 */
import { readdirSync } from 'node:fs'

for (const name of readdirSync(new URL('.', import.meta.url)).sort()) {
  if (name.endsWith('.test.js')) await import(new URL(name, import.meta.url).href)
}
