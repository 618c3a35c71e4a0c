/** Loads every file of this folder: they are short, so one process plays them all where each process begins a driver of its own. */
import { readdirSync } from 'node:fs'

for (const name of readdirSync(new URL('.', import.meta.url)).sort()) {
  if (name.endsWith('.test.js')) await import(new URL(name, import.meta.url).href)
}
