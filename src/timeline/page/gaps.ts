/** The times in which streams stood idle, by what held them up. */
import { BarList, type Bars } from '../bars.js'
import type { Data } from './data.js'

export class Gaps {
  /** The rows behind them, the longest gap first. */
  readonly all: readonly number[]

  constructor(private readonly data: Data) {
    const rows: number[] = []
    for (let row = 0; row < data.length; row += 1) if (data.heldUp[row] !== 0) rows.push(row)
    this.all = rows.sort((a, b) => this.lengthOf(b) - this.lengthOf(a) || a - b)
  }

  lengthOf(row: number): number {
    return (this.data.start[row] ?? 0) - (this.data.gapBegin[row] ?? 0)
  }

  /** By the place of what held them up among the recording's `holdUps`. */
  of(holdUp: number): readonly number[] {
    return this.all.filter((row) => this.data.heldUp[row] === holdUp + 1)
  }

  /** As bars, by lane. */
  bars(rows: readonly number[]): ReadonlyMap<number, Bars> {
    const { lane, gapBegin, start } = this.data
    const lists = new Map<number, BarList>()
    for (const row of rows) {
      const on = lane[row] ?? 0
      const list = lists.get(on) ?? new BarList()
      lists.set(on, list)
      list.add(row, gapBegin[row] ?? 0, start[row] ?? 0, 0)
    }
    return new Map([...lists].map(([on, list]) => [on, list.toBars()]))
  }
}
