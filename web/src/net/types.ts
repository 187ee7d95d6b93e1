// What the gateway's cell API sends (docs/API.md).

export type SessionState = 'starting' | 'idle' | 'busy' | 'paused' | 'dead';

export interface Usage {
  cpu_ms: number;
  memory_bytes: number;
  peak_memory_bytes: number;
  disk_bytes: number;
}

export interface Session {
  id: string;
  name: string;
  state: SessionState;
  reason?: string;
  template: string;
  memory_mb: number;
  accelerator: string;
  created_at: string;
  last_activity: string;
  metadata: Record<string, unknown>;
  usage: Usage | null;
}

export interface Template {
  name: string;
  memory_mb: number[];
}

/** What a new session is made of. */
export interface Choice {
  template: string;
  memory_mb: number;
}

export interface Checkpoint {
  id: string;
  name: string;
  created_at: string;
  bytes: number;
}

export interface Artifact {
  path: string;
  name: string;
  change: 'created' | 'changed';
  mime: string;
  size: number;
  partial?: boolean; // still being written
  url: string;
}

export type MimeBundle = Record<string, unknown>;

export interface ErrorContent {
  ename: string;
  evalue: string;
  traceback: string[];
}

export interface Finished {
  id: string;
  status: CellStatus;
  exit_code: number;
  execution_count: number | null;
  stdout: string;
  stderr: string;
  displays: { data: MimeBundle; metadata: Record<string, unknown> }[];
  result: MimeBundle | null;
  error: ErrorContent | null;
  artifacts: Artifact[];
  artifacts_total: number;
  usage: { wall_ms: number | null; cpu_ms: number | null; peak_memory_bytes: number | null };
  detail?: string;
}

export type CellStatus = 'ok' | 'error' | 'timeout' | 'interrupted' | 'cancelled' | 'oom' | 'kernel_died' | 'vm_died';

/** One event of a session's log, or an answer of the stream. */
export interface StreamEvent {
  seq?: number;
  type: string;
  t?: number;
  cell?: string;
  msg_id?: string;
  content?: Record<string, unknown>;
  prompt?: string;
  password?: boolean;
  artifact?: Artifact;
  finished?: Finished;
  status?: string;
  state?: SessionState;
  reason?: string;
  message?: string;
  ref?: string;
  count?: number;
  bytes?: number;
}

export interface FileEntry {
  name: string;
  type: 'file' | 'dir' | 'other';
  size: number;
  modified_at: string;
  url?: string;
}

export interface Folder {
  path: string;
  type: 'dir';
  entries: FileEntry[];
  truncated: boolean;
}
