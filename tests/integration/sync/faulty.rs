//! A cluster as a process sees it that things go wrong for: calls are refused or lost, it dies or loses its lease in the
//! middle, plans from a view that is old, and misses events. What its calls did is noted.

use stator_cluster::cluster::{
    ApplyOutcome, ApplyRequest, ApplyResponse, ClockReading, Cluster, ClusterError, DeleteOutcome, Fence,
    FieldConflict, Preconditions, WatchReceiver, watch_queue,
};
use stator_core::dynamo::admission::Platform;
use stator_core::dynamo::kinds::{self, ObjectKind};
use stator_core::dynamo::served_models::{FrontendAnswer, FrontendService};
use stator_core::object::{FieldPath, Object, ObjectRef};
use stator_core::retry::JitterSource;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// Chance that is the same for the same seed.
pub struct Chance(JitterSource);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(JitterSource::new(seed))
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.0.next_u64() % u64::try_from(limit).unwrap()).unwrap()
    }

    pub fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }
}

/// A write that was sent by a process that is gone.
enum LateWrite {
    Apply(Box<ApplyRequest>),
    Delete(ObjectRef, Preconditions),
}

/// What all processes of a schedule share: chance, and what became of the cluster.
pub struct History {
    chance: Mutex<Chance>,
    late: Mutex<Vec<LateWrite>>,
    /// Writes to objects that changed them, records apart.
    pub writes: Mutex<Vec<String>>,
    /// What happened, for whoever reads of a failure.
    pub story: Mutex<Vec<String>>,
}

impl History {
    pub fn new(seed: u64) -> Self {
        Self {
            chance: Mutex::new(Chance::new(seed)),
            late: Mutex::default(),
            writes: Mutex::default(),
            story: Mutex::default(),
        }
    }

    pub fn below(&self, limit: usize) -> usize {
        self.chance.lock().unwrap().below(limit)
    }

    pub fn one_in(&self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    pub fn tell(&self, line: String) {
        self.story.lock().unwrap().push(line);
    }

    /// How often each object was deleted.
    pub fn deleted(&self) -> BTreeMap<String, usize> {
        let mut deleted = BTreeMap::new();
        for write in self.writes.lock().unwrap().iter().filter(|write| write.starts_with("delete")) {
            *deleted.entry(write.clone()).or_default() += 1;
        }
        deleted
    }

    fn note(&self, verb: &str, object: &ObjectRef) {
        if object.kind != kinds::RECORD.kind && object.kind != kinds::JOURNAL.kind {
            self.writes.lock().unwrap().push(format!("{verb} {} {}", object.kind, object.name));
        }
    }

    async fn apply<C: Cluster>(&self, cluster: &C, request: &ApplyRequest) -> Result<ApplyResponse, ClusterError> {
        let answer = cluster.apply(request).await;
        if let Ok(ApplyResponse { object, outcome: ApplyOutcome::Created | ApplyOutcome::Updated }) = &answer
            && !request.dry_run
        {
            self.note("apply", &object.reference());
        }
        answer
    }

    async fn delete<C: Cluster>(
        &self,
        cluster: &C,
        object: &ObjectRef,
        preconditions: &Preconditions,
    ) -> Result<DeleteOutcome, ClusterError> {
        let answer = cluster.delete(object, preconditions).await;
        if let Ok(DeleteOutcome::Gone | DeleteOutcome::Pending(_)) = &answer {
            self.note("delete", object);
        }
        answer
    }

    /// What processes sent that are gone arrives: one write of it, or all.
    pub async fn arrive<C: Cluster>(&self, cluster: &C, all: bool) {
        loop {
            let Some(write) = self.late.lock().unwrap().pop() else { return };
            // Nobody waits for the answer.
            match write {
                LateWrite::Apply(request) => drop(self.apply(cluster, &request).await),
                LateWrite::Delete(object, preconditions) => drop(self.delete(cluster, &object, &preconditions).await),
            }
            if !all {
                return;
            }
        }
    }
}

/// What may go wrong with a call.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// It is not carried out, and may be in a moment.
    Hiccup,
    /// It is carried out, and the answer is lost.
    LostAnswer,
    /// 403.
    Forbidden,
    /// 409: the object was written since.
    Precondition,
    /// 409: another manager owns a field.
    Conflict,
    /// The process dies: before the call is sent, after it was carried out, or with it on its way.
    Crash(OnItsWay),
    /// Somebody else has the lease.
    LeaderChange(OnItsWay),
    /// The machine slept for an hour, and the lease is over.
    ClockJump,
}

/// What becomes of a call whose process does not wait for it.
#[derive(Clone, Copy, Debug)]
enum OnItsWay {
    NotSent,
    CarriedOut,
    Late,
}

/// A cluster as one process of a schedule sees it.
pub struct Faulty<'a, C> {
    cluster: &'a C,
    history: &'a History,
    /// One of so many calls goes wrong.
    odds: usize,
    fence: Mutex<Fence>,
    is_dead: Mutex<bool>,
    /// What lists and looks show in place of what is there.
    pub stale: Mutex<Option<Vec<Object>>>,
}

impl<'a, C: Cluster> Faulty<'a, C> {
    pub fn new(cluster: &'a C, history: &'a History, odds: usize) -> Self {
        let fence = Fence::open(ClockReading::now(), Duration::from_secs(600));
        let (fence, is_dead, stale) = (Mutex::new(fence), Mutex::new(false), Mutex::new(None));
        Self { cluster, history, odds, fence, is_dead, stale }
    }

    fn on_its_way(&self) -> OnItsWay {
        [OnItsWay::NotSent, OnItsWay::CarriedOut, OnItsWay::Late][self.history.below(3)]
    }

    /// What goes wrong with the next call, if anything does.
    fn trouble(&self, about: &str) -> Option<Trouble> {
        if self.odds == 0 || !self.history.one_in(self.odds) {
            return None;
        }
        let trouble = match self.history.below(10) {
            0 | 1 => Trouble::Hiccup,
            2 | 3 => Trouble::LostAnswer,
            4 => Trouble::Forbidden,
            5 => Trouble::Precondition,
            6 => Trouble::Conflict,
            7 => Trouble::Crash(self.on_its_way()),
            8 => Trouble::LeaderChange(self.on_its_way()),
            _ => Trouble::ClockJump,
        };
        self.history.tell(format!("{about}: {trouble:?}"));
        Some(trouble)
    }

    /// Why the process may do nothing any more, where that is so.
    fn obstacle(&self) -> Option<ClusterError> {
        if *self.is_dead.lock().unwrap() {
            return Some(ClusterError::Storage { message: "the process died".to_owned() });
        }
        self.fence.lock().unwrap().check().err()
    }

    /// Makes the trouble, and says what the process hears of its call; nothing where the call goes on to the cluster.
    async fn make<T>(
        &self,
        object: &ObjectRef,
        trouble: Option<Trouble>,
        carried_out: impl Future<Output = Result<T, ClusterError>>,
        late: LateWrite,
    ) -> Result<T, ClusterError> {
        let way = match trouble {
            None => return carried_out.await,
            Some(Trouble::Hiccup) => return Err(ClusterError::transient("the API server does not answer")),
            Some(Trouble::Forbidden) => {
                let (message, fix) = ("stator may not".to_owned(), "grant it".to_owned());
                return Err(ClusterError::Forbidden { message, fix });
            }
            Some(Trouble::Precondition) => {
                return Err(ClusterError::Precondition { object: object.clone(), message: "it moved".to_owned() });
            }
            Some(Trouble::Conflict) => {
                let field = FieldConflict { manager: "kubectl-edit".to_owned(), path: FieldPath::default() };
                return Err(ClusterError::Conflict { object: object.clone(), conflicts: vec![field] });
            }
            Some(Trouble::LostAnswer) => {
                carried_out.await?;
                return Err(ClusterError::transient("the connection was closed"));
            }
            Some(Trouble::Crash(way)) => {
                *self.is_dead.lock().unwrap() = true;
                way
            }
            Some(Trouble::LeaderChange(way)) => {
                self.fence.lock().unwrap().close();
                way
            }
            Some(Trouble::ClockJump) => {
                let now = ClockReading::now();
                let began = ClockReading { wall: now.wall - Duration::from_secs(3600), ..now };
                *self.fence.lock().unwrap() = Fence::open(began, Duration::from_secs(600));
                OnItsWay::NotSent
            }
        };
        match way {
            OnItsWay::NotSent => {}
            OnItsWay::CarriedOut => drop(carried_out.await),
            OnItsWay::Late => self.history.late.lock().unwrap().push(late),
        }
        if let Some(error) = self.obstacle() {
            return Err(error);
        }
        Err(ClusterError::Fenced)
    }
}

impl<C: Cluster> Cluster for Faulty<'_, C> {
    fn describe(&self) -> String {
        self.cluster.describe()
    }

    async fn platform(&self, stated: &Platform) -> Result<Platform, ClusterError> {
        self.cluster.platform(stated).await
    }

    async fn list(
        &self,
        kind: &ObjectKind,
        namespace: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Object>, ClusterError> {
        let stale = self.stale.lock().unwrap().clone().filter(|_| namespace.is_some());
        let Some(stale) = stale else { return self.cluster.list(kind, namespace, labels).await };
        let has = |object: &Object| {
            labels.iter().all(|(key, value)| object.labels().get(key.as_str()) == Some(&value.as_str()))
        };
        Ok(stale.into_iter().filter(|object| object.kind() == kind.kind && has(object)).collect())
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<Object>, ClusterError> {
        if let Some(stale) = &*self.stale.lock().unwrap() {
            return Ok(stale.iter().find(|one| one.reference().identity() == object.identity()).cloned());
        }
        self.cluster.get(object).await
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<ApplyResponse, ClusterError> {
        // What writes nothing is no moment for anything.
        if request.dry_run {
            return self.cluster.apply(request).await;
        }
        if let Some(error) = self.obstacle() {
            return Err(error);
        }
        if self.history.one_in(3) {
            self.history.arrive(self.cluster, false).await;
        }
        let object = request.object.reference();
        let trouble = self.trouble(&format!("apply {object}"));
        let late = LateWrite::Apply(Box::new(request.clone()));
        self.make(&object, trouble, self.history.apply(self.cluster, request), late).await
    }

    async fn delete(&self, object: &ObjectRef, preconditions: &Preconditions) -> Result<DeleteOutcome, ClusterError> {
        if let Some(error) = self.obstacle() {
            return Err(error);
        }
        if self.history.one_in(3) {
            self.history.arrive(self.cluster, false).await;
        }
        let trouble = self.trouble(&format!("delete {object}"));
        let late = LateWrite::Delete(object.clone(), preconditions.clone());
        self.make(object, trouble, self.history.delete(self.cluster, object, preconditions), late).await
    }

    async fn served_models(&self, frontend: &FrontendService) -> FrontendAnswer {
        self.cluster.served_models(frontend).await
    }

    /// Every third event is lost, and the watch breaks after some: whoever watches has to look again.
    async fn watch(&self, kinds: &[ObjectKind], namespace: Option<&str>) -> Result<WatchReceiver, ClusterError> {
        let mut events = self.cluster.watch(kinds, namespace).await?;
        if self.odds == 0 {
            return Ok(events);
        }
        let (sender, receiver) = watch_queue();
        tokio::spawn(async move {
            for number in 1..20 {
                let Some(event) = events.recv().await else { return };
                if number % 3 != 0 {
                    sender.send(event);
                }
            }
        });
        Ok(receiver)
    }
}
