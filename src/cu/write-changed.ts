import { readFileSync, writeFileSync } from 'node:fs'

/** Writes a file unless it has that text already: a file that stays as it is makes no other tool work again. */
export function writeChanged(path: string, text: string): void {
  try {
    if (readFileSync(path, 'utf8') === text) return
  } catch {
    // It is not there yet.
  }
  writeFileSync(path, text)
}
